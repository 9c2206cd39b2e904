import GatewayStrategies
import Testing

@testable import GatewayApp
@testable import GatewayConfiguration
@testable import GatewayHTTP
@testable import GatewayTokens

/// What a mistake is answered with: names that exist, and what to write.
@Suite("Advice on mistakes", .timeLimit(.minutes(5)))
struct AdviceTests {
    private func report(_ text: String) -> String {
        ConfigLoader(files: MemoryFiles(["/work/gateway.yaml": "version: 1\n\(text)\n"])) { _ in nil }
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: UnreadSecrets())
            .report(consequence: "refused")
    }

    private func report(strategy: String, _ more: String = "") -> String {
        report("routes: {a: {upstream: https://a.example, auth: {strategy: \(strategy)\(more)}}}")
    }

    @Test func anUnknownStrategyListsThoseThereAre() {
        let report = report(strategy: "kerberos")
        #expect(report.contains("no strategy is named \"kerberos\"; strategies: aws_sigv4, basic, bearer"))
        for kind in StrategyCatalog.builtIn.kinds { #expect(report.contains(kind)) }
    }

    @Test(arguments: [
        ("client_credentials", "\"oauth2_client_credentials\""),
        ("client-credentials", "\"oauth2_client_credentials\""),
        ("authorization_code", "\"oauth2_authorization_code\""),
        ("client_secret_basic", "\"oauth2_client_credentials\" with \"client_auth: basic\""),
        ("client_secret_post", "\"oauth2_client_credentials\" with \"client_auth: body\""),
        ("private_key_jwt", "\"oauth2_client_credentials\" with \"client_auth: private_key_jwt\""),
        ("api_key", "\"header\""),
    ])
    func theNameOfAStandardIsTranslated(_ name: String, _ words: String) {
        #expect(report(strategy: name).contains("; here that is \(words)"))
    }

    @Test func aMisspeltStrategyIsSuggested() {
        #expect(report(strategy: "baerer").contains("no strategy is named \"baerer\"; did you mean \"bearer\"?"))
    }

    @Test(arguments: [("client_secret_basic", "basic"), ("client_secret_post", "body")])
    func theStandardsNamesOfClientAuthenticationAreTranslated(_ name: String, _ word: String) {
        let more = ", token_url: https://a.example/token, client_id: a, client_secret: {env: S}, client_auth: \(name)"
        #expect(
            report(strategy: "oauth2_client_credentials", more)
                .contains("found \"\(name)\"; here that is \"\(word)\"")
        )
    }

    @Test func everyStandardNameLeadsToAStrategy() {
        let kinds = StrategyCatalog.builtIn.kinds
        let names = StrategyCatalog.builtIn.strategies.flatMap { $0.otherNames }
        #expect(!names.isEmpty && Set(names).count == names.count)
        for name in names { #expect(!kinds.contains(name) && name == name.lowercased()) }
    }

    // MARK: A mapping

    @Test func aMappingThatIsMissingIsShown() {
        let report = report("routes:\n  box: https://api.box.com")
        #expect(report.contains("routes.box: expected a mapping, found a scalar\n"))
        let example = "          box:\n            upstream: https://api.example.com\n"
        #expect(report.contains("      = for example:\n\(example)"), "\(report)")
    }

    @Test(arguments: [
        ("limits: 5\n", "limits:\n            header_bytes: 64KiB"),
        ("access: {clients: {ci: secret}}\n", "ci:\n            token: {env: LAPTOP_TOKEN}"),
        ("listeners: {proxy: [\"127.0.0.1:80\"]}\n", "proxy:\n            - address: 127.0.0.1:8080"),
        ("credentials: [a]\n", "credentials:\n            reports: {strategy: bearer, token: {env: REPORTS_TOKEN}}"),
    ])
    func theExampleIsThatOfTheKey(_ text: String, _ example: String) {
        #expect(report(text).contains("      = for example:\n          \(example)\n"))
    }

    @Test func programsAreToldTheExample() throws {
        let outcome = ConfigLoader(files: MemoryFiles(["/work/gateway.yaml": "version: 1\nlimits: 5\n"])) { _ in nil }
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: UnreadSecrets())
        let entry = try #require(outcome.report.diagnostics.first { $0.path == "limits" })
        #expect(entry.example == "limits:\n  header_bytes: 64KiB")
    }
}
