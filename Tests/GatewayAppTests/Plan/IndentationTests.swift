import GatewayApp
import GatewayConfiguration
import GatewayHTTP
import GatewayStrategies
import Testing

@testable import GatewayProxy

/// Keys that stand beside what they belong to.
@Suite("Wrong indentation", .timeLimit(.minutes(5)))
struct IndentationTests {
    private static func report(_ text: String) -> String {
        let secrets = MemorySecrets(variables: [:])
        return ConfigLoader(files: MemoryFiles(["/work/gateway.yaml": text]), environment: { secrets.environment($0) })
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: secrets)
            .report(consequence: "refused")
    }

    private static let head = "version: 1\nlisteners: {proxy: [{address: \"127.0.0.1:8080\"}]}\n"

    @Test func keysOfARouteBelongBelowIt() {
        let text = Self.head + "routes:\n  a:\n  upstream: https://app.example.com\n  auth: none\n"
        let report = Self.report(text)
        #expect(report.contains("\"upstream\" is a key of a route; indent it below \"a\""), "\(report)")
        #expect(!report.contains("routes.upstream") && !report.contains("\"auth\" is"), "\(report)")
    }

    @Test func keysOfACredentialBelongBelowItAndNoSecretIsShown() {
        let text =
            Self.head + "credentials:\n  a:\n  strategy: bearer\n  token: canary-of-sixteen\n"
            + "routes:\n  r: {upstream: https://app.example.com, auth: none}\n"
        let report = Self.report(text)
        #expect(report.contains("\"strategy\" is a key of a credential; indent it below \"a\""), "\(report)")
        #expect(!report.contains("canary"), "\(report)")
    }

    @Test func aRouteBelongsBelowRoutes() {
        let text = Self.head + "routes:\na:\n  upstream: https://app.example.com\n  auth: none\n"
        let report = Self.report(text)
        #expect(report.contains("\"routes\" is empty; indent \"a\" below it"), "\(report)")
        #expect(!report.contains("did you mean \"ca\""), "\(report)")
    }

    @Test func aRouteMayBeCalledLikeAKey() {
        let text = Self.head + "routes:\n  match: {upstream: https://app.example.com, auth: none}\n"
        #expect(!Self.report(text).contains("indent"))
    }
}
