import Foundation
import GatewayConfiguration
import GatewayHTTP
import GatewayStrategies
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayApp
@testable import GatewayProxy

/// Every strategy has a whole file in `examples/strategies`, named after its kind.
@Suite("Examples of strategies", .timeLimit(.minutes(5)))
struct StrategyExampleTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "examples/strategies")

    @Test(arguments: StrategyCatalog.builtIn.kinds)
    func everyStrategyHasAnExampleThatLoads(_ kind: String) throws {
        let loader = ConfigLoader(files: FolderFiles(folder: Self.folder.path), environment: { _ in "value" })
        let outcome = loader.plan(at: "\(kind).yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: AnySecret())
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

    /// Where its requests go, of the whole file.
    private static let endpoints: [String: Set<String>] = [
        "aws_sigv4": ["https://sts.eu-central-1.amazonaws.com/"], "box_ccg": box, "box_developer_token": box,
        "box_jwt": box, "box_oauth": box, "oauth2_token_exchange": box,
        "delegated": ["https://tokens.example.com/token", "https://tokens.corp.example.com/token"],
        "duke_session": [
            "https://mobile-authorizer.api.oit.duke.edu/dukemobile/ios/refresh",
            "https://mobile-authorizer.api.oit.duke.edu/dukemobile/ios/revoke",
        ],
        "github_app": [
            "https://api.github.com/app/installations/12345678/access_tokens",
            "https://api.github.com/installation/token",
            "https://api.github.com/orgs/acme/installation", "https://api.github.com/users/acme/installation",
            "https://api.github.com/app/installations/*/access_tokens",
            "https://github.example.com/api/v3/app/installations/7/access_tokens",
            "https://github.example.com/api/v3/installation/token",
        ],
        "google_service_account": ["https://oauth2.googleapis.com/token"],
        "oauth2_authorization_code": tokens, "oauth2_client_credentials": tokens, "oauth2_jwt_bearer": tokens,
        "oauth2_password": ["https://archive.example.com/oauth/token", "https://archive.example.com/oauth/revoke"],
        "recipe": [
            "https://acme.portal.example.com/login", "https://acme.portal.example.com/refresh",
            "https://acme.portal.example.com/session",
        ],
        "session_refresh": [
            "https://authorizer.example.com/portal/refresh", "https://authorizer.example.com/portal/revoke",
        ],
    ]
    private static let box: Set = ["https://api.box.com/oauth2/token", "https://api.box.com/oauth2/revoke"]
    private static let tokens: Set = ["https://id.example.com/oauth2/token", "https://id.example.com/oauth2/revoke"]

    @Test(arguments: StrategyCatalog.builtIn.kinds)
    func everyStrategySaysWhereItAsks(_ kind: String) throws {
        let loader = ConfigLoader(files: FolderFiles(folder: Self.folder.path), environment: { _ in "value" })
        let plan = try #require(
            loader.plan(at: "\(kind).yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: AnySecret()).plan
        )
        let endpoints = plan.credentials.flatMap(\.strategy.behavior.authorityEndpoints)
        #expect(Set(endpoints.map { "\($0.origin)\($0.path)" }) == Self.endpoints[kind] ?? [])
        for route in plan.routes where route.upstream.host == "api.box.com" && Self.endpoints[kind] == Self.box {
            #expect(Set(route.endpoints.map(\.path)) == ["/oauth2/token", "/oauth2/revoke"])
        }
    }

    @Test func thereIsNoExampleOfAnythingElse() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path)
        #expect(names.sorted() == StrategyCatalog.builtIn.kinds.map { "\($0).yaml" }.sorted())
    }
}

/// Every variable is set.
private struct AnySecret: SecretSource {
    /// Long enough for the token of a client.
    func environment(_ name: String) -> String? { "value-of-sixteen-bytes" }

    func file(_ path: String) throws(UnusableInput) -> Secret {
        if path.hasSuffix(".pem") { return Secret(SampleKeys.rsa) }
        if path.hasSuffix("box-app.json") { return Secret(Self.boxApp) }
        if path.hasSuffix("service-account.json") { return Secret(Self.serviceAccount) }
        throw UnusableInput("no such file")
    }

    func certificates(_ path: String) throws(UnusableInput) -> String { "certificates of \(path)" }

    func fits(_ tls: ClientTLS) -> Bool { true }

    private static let boxApp =
        #"{"boxAppSettings":{"clientID":"app","clientSecret":"s","appAuth":{"publicKeyID":"k","privateKey":""#
        + SampleKeys.rsa.replacing("\n", with: "\\n") + #"","passphrase":"value"}},"enterpriseID":"12345"}"#

    private static let serviceAccount =
        #"{"type":"service_account","client_email":"robot@example.com","private_key_id":"k","private_key":""#
        + SampleKeys.rsa.replacing("\n", with: "\\n") + #"","token_uri":"https://oauth2.googleapis.com/token"}"#

    func openPrivateKey(_ pem: Secret, passphrase: Secret?) -> PrivateKeyDER? {
        SampleKeys.open(pem, passphrase: passphrase)
    }

    func program(_ program: SecretProgram) throws(UnusableInput) -> Secret {
        throw UnusableInput("no such program")
    }

    func systemdCredential(_ name: String) throws(UnusableInput) -> Secret {
        throw UnusableInput("no such credential")
    }
}
