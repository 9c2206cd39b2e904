import Foundation
import GatewayCore
import GatewayStrategies
import GatewayTesting
import GatewayYAML
import Testing

/// Every strategy has a whole file in `examples/strategies`, named after its kind.
@Suite("Examples of strategies")
struct StrategyExampleTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "examples/strategies")

    @Test(arguments: StrategyCatalog.builtIn.kinds)
    func everyStrategyHasAnExampleThatLoads(_ kind: String) throws {
        let loader = ConfigLoader(files: FolderFiles(folder: Self.folder.path), environment: { _ in "value" })
        let outcome = loader.plan(at: "\(kind).yaml", catalog: .builtIn, secrets: AnySecret())
        let warned = outcome.diagnostics.filter { $0.severity == .warning && kind == "oauth2_password" }
        #expect(outcome.diagnostics.map(\.message) == warned.prefix(1).map(\.message))
        let plan = try #require(outcome.plan)
        if kind == "none" {
            #expect(plan.routes.allSatisfy { $0.credential == nil })
        } else {
            let parents = Set(plan.credentials.compactMap(\.parent))
            let shown = plan.credentials.indices.filter { !parents.contains($0) }
            #expect(Set(shown.map { plan.credentials[$0].strategyKind }) == [kind])
        }
    }

    @Test func thereIsNoExampleOfAnythingElse() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path)
        #expect(names.sorted() == StrategyCatalog.builtIn.kinds.map { "\($0).yaml" }.sorted())
    }
}

/// Every variable is set.
private struct AnySecret: SecretSource {
    func environment(_ name: String) -> String? { "value" }

    func file(_ path: String) throws(SecretSourceError) -> Secret {
        if path.hasSuffix(".pem") { return Secret(SampleKeys.rsa) }
        if path.hasSuffix("box-app.json") { return Secret(Self.boxApp) }
        throw SecretSourceError("no such file")
    }

    func certificates(_ path: String) throws(SecretSourceError) -> String { "certificates of \(path)" }

    func fits(_ tls: ClientTLS) -> Bool { true }

    private static let boxApp =
        #"{"boxAppSettings":{"clientID":"app","clientSecret":"s","appAuth":{"publicKeyID":"k","privateKey":""#
        + SampleKeys.rsa.replacing("\n", with: "\\n") + #"","passphrase":"value"}},"enterpriseID":"12345"}"#

    func openPrivateKey(_ pem: Secret, passphrase: Secret?) -> PrivateKeyDER? {
        SampleKeys.open(pem, passphrase: passphrase)
    }

    func program(_ program: SecretProgram) throws(SecretSourceError) -> Secret {
        throw SecretSourceError("no such program")
    }

    func systemdCredential(_ name: String) throws(SecretSourceError) -> Secret {
        throw SecretSourceError("no such credential")
    }
}
