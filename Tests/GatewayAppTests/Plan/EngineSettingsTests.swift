import GatewayApp
import GatewayConfiguration
import GatewayStrategies
import Testing

@testable import GatewayProxy

/// `listeners.authz`, and `authz` of a route.
@Suite("listeners.authz", .timeLimit(.minutes(5)))
struct EngineSettingsTests {
    private static let entry = "engine: edge, contract: nginx, token: 0123456789abcdef"
    private static let bearer = "{strategy: bearer, token: fixed}"

    private func outcome(
        _ listener: String = "address: \"127.0.0.1:8191\", \(entry)",
        auth: String = bearer,
        authz: String = "[edge]"
    ) -> ConfigOutcome {
        let listeners = "listeners: {authz: [{\(listener)}]}"
        let route = "routes: {box: {upstream: https://api.box.com, auth: \(auth), authz: \(authz)}}"
        let files = MemoryFiles(["/work/gateway.yaml": "version: 1\n\(listeners)\n\(route)\n"])
        return ConfigLoader(files: files, environment: { _ in nil })
            .plan(
                at: "gateway.yaml",
                catalog: .builtIn,
                presets: PresetLibrary(),
                secrets: MemorySecrets(variables: [:])
            )
    }

    @Test func anEngineAndItsRoute() throws {
        let more = "address: \"127.0.0.1:8191\", engine: edge, contract: envoy, path_prefix: /authz, cache: 10s, "
        let outcome = outcome(more + "token: [0123456789abcdef, fedcba9876543210]")
        let plan = try #require(outcome.plan, "\(outcome.report(consequence: "refused"))")
        let engine = try #require(plan.authz.first?.engine)
        #expect((engine.name, engine.contract, engine.pathPrefix) == ("edge", .envoy, "/authz"))
        #expect(engine.tokens.count == 2 && engine.cache == .seconds(10))
        #expect(plan.routes[0].authz == ["edge"])
        #expect(plan.listeners.count == 1, "clients send requests elsewhere")
        let shown = PlanSummary(plan).text()
        #expect(
            shown.contains("127.0.0.1:8191, engine edge, contract envoy, path_prefix /authz, cache 10s"),
            "\(shown)"
        )
        #expect(!shown.contains("0123456789abcdef"))
    }

    @Test(arguments: [
        ("address: \"127.0.0.1:8191\", engine: edge, contract: nginx", "does not authenticate its engine"),
        ("unix: /tmp/a.sock, engine: edge, contract: nginx", "does not authenticate its engine"),
        ("address: \"192.0.2.1:8191\", \(entry)", "whole tokens would be sent in clear"),
        ("address: \"127.0.0.1:8080\", \(entry)", "two listeners have this address"),
        ("address: \"127.0.0.1:8081\", \(entry)", "the admin listener has this address too"),
        ("address: \"127.0.0.1:1\", engine: edge, contract: apache, token: 0123456789abcdef", "expected one of envoy"),
        (
            "address: \"127.0.0.1:1\", engine: a b, contract: nginx, token: 0123456789abcdef",
            "a name has at most 64 letters"
        ),
        ("address: \"127.0.0.1:1\", engine: edge, contract: nginx, token: short", "fewer than 16 bytes"),
        ("address: \"127.0.0.1:1\", path_prefix: /a, \(entry)", "is for \"contract: envoy\""),
        ("address: \"127.0.0.1:1\", certificates: [a.example], \(entry)", "is for addresses with tls.client_ca"),
        ("address: \"127.0.0.1:1\", tls: {ca: local}, \(entry)", "needs a certificate of its own"),
    ])
    func aMistakeIsNamed(_ listener: String, _ words: String) {
        let outcome = outcome(listener)
        #expect(outcome.plan == nil)
        #expect(
            outcome.report(consequence: "refused").contains(words),
            "\(outcome.report(consequence: "refused"))"
        )
    }

    @Test(arguments: [
        ("none", "has no credential that can be handed to an engine"),
        ("{strategy: header, query: key, value: fixed}", "puts its credential into the URL"),
        ("{strategy: basic, username: a, password: b, mode: challenge}", "once the upstream has asked for it"),
        ("{strategy: registry, realm_hosts: [auth.example.com], username: a, password: b}", "needs the challenge"),
    ])
    func aCredentialThatCannotBeHandedOutIsRefused(_ auth: String, _ words: String) {
        let outcome = outcome(auth: auth)
        #expect(outcome.plan == nil)
        #expect(
            outcome.report(consequence: "refused").contains(words),
            "\(outcome.report(consequence: "refused"))"
        )
    }

    @Test func anEngineMustBeConfiguredAndUsed() {
        let unknown = outcome(authz: "[egde]").report(consequence: "refused")
        #expect(unknown.contains("no engine is named \"egde\""), "\(unknown)")
    }

    @Test(arguments: [
        ("edge.example.com", "dns: edge.example.com"), ("EDGE.example.com.", "dns: edge.example.com"),
        ("spiffe://example.org/edge", "uri: spiffe://example.org/edge"),
        ("spiffe://example.org/*", "uri: spiffe://example.org/*"),
    ])
    func aCertificateHasOneOfTheseNames(_ text: String, _ name: String) {
        #expect(CertificateName(text)?.description == name)
    }

    @Test(arguments: ["", "*.example.com", "a/*", "spiffe://", "spiffe:///a", "://a", "a b", "spiffe://a/*/b"])
    func anyOtherTextIsNoName(_ text: String) {
        #expect(CertificateName(text) == nil)
    }
}
