import GatewayConfiguration
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("The strategy of docs/internals/extending.md", .timeLimit(.minutes(5)))
struct TicketStrategyTests {
    private static let success = TokenReply(200, #"{"ticket": "t-1", "valid_seconds": 900}"#)

    private func decode(_ block: FixtureNode) -> (grant: (any TokenGrant)?, problems: [String]) {
        let fields = ConfigFields.fixture(block, secrets: FixtureSecrets(["TICKET_KEY": "canary-key"]))
        let strategy = TicketStrategy.read(from: fields)
        fields.refuseUnknownKeys()
        guard case .token(let grant)? = strategy?.behavior else { return (nil, fields.problems) }
        return (grant, fields.problems)
    }

    private func grant() throws -> any TokenGrant {
        let block: FixtureNode = ["url": "https://api.example.com/ticket", "key": ["env": "TICKET_KEY"]]
        return try #require(decode(block).grant)
    }

    @Test func itKeepsThePromisesOfEachGrant() throws {
        try TokenGrantConformance(grant(), success: Self.success, answersErrorsInOAuth: false).check()
    }

    @Test func aTicketIsAskedForAndSent() throws {
        let grant = try grant()
        let asked = try request(of: grant.firstStep(holding: nil, at: now)).wire
        #expect(asked == "POST https://api.example.com/ticket\n\nkey=canary-key")
        let token = try grant.interpret(Self.success, holding: nil, at: now).get()
        #expect(token.lifetime == .seconds(900))
        #expect(grant.injection(of: token).wire == ["Authorization: Ticket t-1"])
    }

    @Test func mistakesAreNamed() {
        #expect(decode(["url": "https://api.example.com/ticket"]).problems == ["missing key \"key\""])
    }
}
