import Foundation
import GatewayConfiguration
import GatewayHTTP
import GatewaySandbox
import GatewayStrategies
import GatewayTesting
import GatewayTokenClient
import GatewayTokens
import Logging
import Testing

@testable import GatewayApp

/// The recipes of `examples/recipes` against the sandbox, and beside the strategies that they spell out.
@Suite("Recipes of the examples", .timeLimit(.minutes(5)))
struct RecipeExampleTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "examples/recipes")
    private static let now = Moment(monotonic: MonotonicTime(nanoseconds: 0), wall: UnixTime(seconds: 1_772_357_400))

    private func grant(_ name: String, _ environment: [String: String]) throws -> any TokenGrant {
        let path = Self.folder.appending(path: "\(name).yaml").path(percentEncoded: false)
        let loader = ConfigLoader(files: SystemConfigFiles(), environment: { environment[$0] })
        let outcome = loader.plan(
            at: path,
            catalog: .builtIn,
            presets: PresetLibrary(),
            secrets: SystemSecretSource(environment: environment)
        )
        #expect(outcome.diagnostics.map(\.message) == [])
        let plan = try #require(outcome.plan)
        guard case .token(let grant)? = plan.credentials.first?.strategy.behavior else { throw CancellationError() }
        return grant
    }

    private static let everything = [
        "BOX_CLIENT_ID": "app", "BOX_CLIENT_SECRET": "canary-secret", "BOX_ENTERPRISE_ID": "1",
        "DUKE_ACCESS_TOKEN": "a", "DUKE_SESSION_TOKEN": "s", "WRAPPED_API_KEY": "canary-key", "WEBAPP_USER": "u",
        "WEBAPP_PASSWORD": "canary-password", "DJANGO_USER": "u", "DJANGO_PASSWORD": "canary-password",
        "JENKINS_USER": "u", "JENKINS_PASSWORD": "canary-password", "SLACK_CLIENT_ID": "app",
        "SLACK_CLIENT_SECRET": "canary-secret", "SLACK_ACCESS_TOKEN": "a", "SLACK_REFRESH_TOKEN": "r",
    ]

    @Test func everyExampleLoads() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path(percentEncoded: false))
        #expect(names.count >= 4)
        for name in names { _ = try grant(name.replacing(".yaml", with: ""), Self.everything) }
    }

    @Test func theRecipeForBoxKeepsThePromisesOfTheStrategy() throws {
        let reply = Data(#"{"access_token":"new","expires_in":4123,"restricted_to":[],"token_type":"bearer"}"#.utf8)
        try TokenGrantConformance(
            grant("box_ccg", Self.everything),
            success: TokenReply(status: 200, body: Array(reply))
        ).check()
    }

    @Test func theRecipeForDukeKeepsThePromisesOfTheStrategy() throws {
        let reply = Data(#"{"data":{"access_token":"new","session_token":"next"}}"#.utf8)
        try TokenGrantConformance(
            grant("duke_session", Self.everything),
            success: TokenReply(status: 200, body: Array(reply)),
            answersErrorsInOAuth: false
        ).check()
    }

    @Test func theRecipeForBoxAsksAsTheStrategyDoes() throws {
        let recipe = try grant("box_ccg", Self.everything)
        let fields = ConfigFields.fixture([
            "client_id": "app", "client_secret": "canary-secret", "subject": ["enterprise": "1"],
        ])
        let strategy = try #require(StrategyCatalog.builtIn.strategy(named: "box_ccg")?.init(from: fields))
        guard case .token(let builtIn) = strategy.behavior, case .request(let mine) = recipe.firstStep(holding: nil),
            case .request(let theirs) = builtIn.firstStep(holding: nil)
        else { throw CancellationError() }
        #expect(mine.method == theirs.method && mine.url.text == theirs.url.text && mine.body == theirs.body)
        let token = TokenSet(access: Secret("t"), obtainedAt: Self.now.wall)
        #expect(recipe.revocation(of: token)?.body == builtIn.revocation(of: token)?.body)
        #expect(recipe.revocation(of: token)?.url.text == builtIn.revocation(of: token)?.url.text)
        #expect(recipe.injection(of: token) == builtIn.injection(of: token))
        #expect(!recipe.rotatesRefreshToken)
    }

    @Test func routesWorkWithThem() async throws {
        try await Bench.run { bench in
            let seeds = bench.sandbox.environment
            let values = [
                "BOX_URL": bench.sandbox.addresses.box, "BOX_CLIENT_ID": seeds["SANDBOX_BOX_CLIENT_ID"],
                "BOX_CLIENT_SECRET": seeds["SANDBOX_BOX_CLIENT_SECRET"],
                "BOX_ENTERPRISE_ID": seeds["SANDBOX_BOX_ENTERPRISE_ID"], "DUKE_URL": bench.sandbox.addresses.duke,
                "DUKE_CLIENT": seeds["SANDBOX_DUKE_CLIENT"], "DUKE_ACCESS_TOKEN": seeds["SANDBOX_DUKE_ACCESS_TOKEN"],
                "DUKE_SESSION_TOKEN": seeds["SANDBOX_DUKE_SESSION_TOKEN"],
            ].compactMapValues { $0 }
            for (name, path) in [("box_ccg", "/box/2.0/users/me"), ("duke_session", "/campus/api/me")] {
                var text = try String(contentsOf: Self.folder.appending(path: "\(name).yaml"), encoding: .utf8)
                text = String(text[(text.range(of: "credentials:")?.lowerBound ?? text.startIndex)...])
                for (variable, value) in values {
                    text = text.replacing("{env: \(variable)}", with: "\"\(value)\"")
                    text = text.replacing(try Regex("\\$\\{\(variable)(:-[^}]*)?\\}"), with: value)
                }
                try await bench.withGateway(text, state: "state-\(name)") { gateway in
                    #expect(try await gateway.get(path).status == 200)
                    let events = try await gateway.events(including: "injected")
                    #expect(events.contains(name == "box_ccg" ? "acquired" : "loaded"))
                }
            }
        }
    }
}
