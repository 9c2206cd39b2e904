import GatewayApp
import GatewayConfiguration
import GatewayHTTP
import GatewayStrategies
import Testing

@testable import GatewayProxy

/// Tokens and certificates of `access.clients`.
@Suite("What proves a client, in the configuration", .timeLimit(.minutes(5)))
struct ClientProofSettingsTests {
    private static let routes = "routes: {box: {upstream: https://api.box.com, auth: none}}\n"
    private static let digest = String(repeating: "ab", count: 32)
    private static let digestOfTest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

    private func outcome(_ text: String) -> ConfigOutcome {
        let secrets = MemorySecrets(variables: [
            "ONE": "secret-1-of-16-bytes", "TWO": "secret-2-of-16-bytes", "SHORT": "short", "LINES": "a\nb",
            "WORD": "changeme",
        ])
        let files = MemoryFiles(["/work/gateway.yaml": "version: 1\n\(text)\n\(Self.routes)"])
        return ConfigLoader(files: files, environment: { secrets.environment($0) })
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: secrets)
    }

    private func client(_ settings: String) throws -> AccessPlan.Client {
        let outcome = outcome("access: {clients: {ci: \(settings)}}")
        let plan = try #require(outcome.plan, "\(outcome.report(consequence: "refused"))")
        return try #require(plan.access.clients.first)
    }

    @Test func aClientHasOneTokenOrTwo() throws {
        let (one, two) = (Secret("secret-1-of-16-bytes"), Secret("secret-2-of-16-bytes"))
        #expect(try client("{token: {env: ONE}}").tokens == [.token(one)])
        #expect(try client("{token: [{env: ONE}]}").tokens == [.token(one)])
        #expect(try client("{token: [{env: ONE}, {env: TWO}]}").tokens == [.token(one), .token(two)])
        #expect(
            try client("{token_sha256: [\(Self.digest), \(Self.digest.reversed().map(String.init).joined())]}")
                .tokens.count == 2
        )
    }

    @Test(arguments: [
        ("{dns: CI.example.com}", CertificateName.exactly(.dns("ci.example.com"))),
        ("{uri: spiffe://example.org/ci}", .exactly(.uri("spiffe://example.org/ci"))),
        ("{uri: \"spiffe://example.org/ns/*\"}", .uriBelow("spiffe://example.org/ns/")),
        ("{uri: \"spiffe://example.org/*\"}", .uriBelow("spiffe://example.org/")),
    ])
    func aClientIsKnownByItsCertificate(_ settings: String, _ name: CertificateName) throws {
        #expect(try client("{certificate: \(settings)}").certificate == name)
        let both = try client("{token: {env: ONE}, certificate: \(settings)}")
        #expect(both.certificate == name && both.tokens.count == 1)
    }

    @Test(arguments: [
        ("ci: {}", "has no way to authenticate; give it a token, token_sha256, certificate or jwt"),
        ("ci: {token: []}", "expected 1 to 2 secrets, found 0"),
        ("ci: {token: [{env: ONE}, {env: TWO}, {env: ONE}]}", "expected 1 to 2 secrets, found 3"),
        ("ci: {token: [{env: ONE}, {env: LINES}]}", "the secret contains a control character"),
        ("ci: {token: [[{env: ONE}]]}", "expected a secret, found a sequence"),
        ("ci: {token: {env: ONE}, token_sha256: \(digest)}", "a client has token or token_sha256, not both"),
        ("ci: {token_sha256: [\(digest), \(digest), \(digest)]}", "a client has at most 2 tokens, found 3"),
        ("ci: {token_sha256: \(digestOfTest)}", "this is the SHA-256 of a word that everybody tries"),
        ("ci: {token_sha256: [\(digest), \(digestOfTest.uppercased())]}", "this is the SHA-256 of a word"),
        ("ci: {token: {env: WORD}}", "the token is a word that everybody tries"),
        ("ci: {certificate: {}}", "a certificate is known by exactly one of dns and uri"),
        ("ci: {certificate: {dns: a, uri: \"b://c/d\"}}", "a certificate is known by exactly one of dns and uri"),
        ("ci: {certificate: {dns: \"*.example.com\"}}", "expected one host name of the certificate"),
        ("ci: {certificate: {uri: ci.example.com}}", "expected one URI of the certificate"),
        ("ci: {certificate: {uri: \"spiffe://*\"}}", "expected one URI of the certificate"),
        ("ci: {certificate: {uri: \"spiffe://example.org/c*\"}}", "expected one URI of the certificate"),
        ("ci: {certificate: {uri: \"spiffe:///*\"}}", "expected one URI of the certificate"),
        ("ci: {certificate: {name: a}}", "unknown key \"name\""),
        (
            "ci: {token: [{env: ONE}, {env: TWO}]}\n    b: {token: {env: TWO}}",
            "has the same token as the client \"ci\""
        ),
        (
            "ci: {certificate: {dns: a}}\n    b: {certificate: {dns: A}}",
            "has the same certificate as the client \"ci\""
        ),
    ])
    func whatCannotProveAClientIsRefused(_ clients: String, _ message: String) {
        let outcome = outcome("access:\n  clients:\n    \(clients)")
        #expect(outcome.plan == nil)
        let report = outcome.report(consequence: "refused")
        #expect(report.contains(message), "\(report)")
        #expect(!report.contains("secret-1"))
    }

    @Test(arguments: [
        ("{token: [{env: ONE}, {env: ONE}]}", "both tokens are the same"),
        ("{token_sha256: [\(digest), \(digest)]}", "both tokens are the same"),
        ("{token: [{env: ONE}, {env: SHORT}]}", "the token has fewer than 16 bytes"),
        ("{certificate: {dns: a}}", "no listener asks clients for certificates, so this has no effect"),
    ])
    func whatIsNoUseIsAWarning(_ settings: String, _ message: String) {
        let outcome = outcome("access: {clients: {ci: \(settings)}}")
        #expect(outcome.plan != nil)
        #expect(outcome.report(consequence: "refused").contains(message))
    }
}
