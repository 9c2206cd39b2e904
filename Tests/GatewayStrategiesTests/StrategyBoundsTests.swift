import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Bounds of strategies", .timeLimit(.minutes(1)))
struct StrategyBoundsTests {
    @Test func theLengthOfAnExtractedValueIsLimited() throws {
        func length(_ count: Int) throws -> Int? {
            let reply = TokenReply(200, String(repeating: "a", count: count))
            return try Extraction(source: .body).value(in: reply, json: nil, from: nil, at: now.wall)?.withValue {
                $0.utf8.count
            }
        }
        #expect(try length(Extraction.limitBytes) == Extraction.limitBytes)
        #expect(throws: BrokenAnswer.self) { try length(Extraction.limitBytes + 1) }
    }

    @Test func theLengthOfAnIssuedTokenIsLimited() {
        let longest = String(repeating: "a", count: IssuedToken.limitBytes)
        #expect(IssuedToken.read(longest) == Secret(longest))
        #expect(IssuedToken.read(longest + "a") == nil)
    }

    @Test func theNumberOfStepsInARecipeIsLimited() throws {
        func problems(_ count: Int) throws -> [String] {
            let last: FixtureNode = ["url": "https://app.example.com/", "outputs": ["token": "/t"]]
            let steps = (1..<count).map { _ -> FixtureNode in ["url": "https://app.example.com/"] } + [last]
            return try GatewayStrategiesTests.problems("recipe", ["acquire": .sequence(steps)])
        }
        #expect(try problems(RecipeStrategy.maximumSteps) == [])
        #expect(try problems(RecipeStrategy.maximumSteps + 1).contains { $0.contains("between 1 and") })
    }

    // MARK: Clocks

    /// Whether an assertion is signed again after this many answers, if the authority's clock is this far ahead.
    private static func isSignedAnew(answers: Int = 1, ahead: Duration = .seconds(60)) throws -> Bool {
        let request = TokenRequest(url: try AuthorityURL("https://id.example.com/token"))
        var attempt = GrantAttempt(holding: nil, at: now, nonce: .sampleNonce)
        attempt.answers = answers
        let body = #"{"error":"invalid_grant","error_description":"exp is in the past"}"#
        let reply = TokenReply(400, body, ["Date": (now.wall + ahead).httpDate])
        let answer = AssertionRepair.grant.answer(to: reply, in: attempt, from: "It") { _ in .request(request) }
        switch answer {
        case .next?: return true
        case .failure?: return false
        default: throw WrongKind()
        }
    }

    @Test func theNumberOfRepairsIsLimited() throws {
        #expect(try Self.isSignedAnew(answers: AssertionRepair.limit))
        #expect(try !Self.isSignedAnew(answers: AssertionRepair.limit + 1))
    }

    /// Otherwise a malicious authority could obtain an assertion that is valid for years.
    @Test func anAssertionIsNotSignedFarAhead() throws {
        #expect(try Self.isSignedAnew(ahead: AssertionRepair.maximumAhead))
        #expect(try !Self.isSignedAnew(ahead: AssertionRepair.maximumAhead + .seconds(1)))
    }

    // MARK: GitHub

    @Test func theNumberOfRepositoriesIsLimited() throws {
        func problems(_ count: Int) throws -> [String] {
            let names = (1...count).map { FixtureNode(stringLiteral: "r\($0)") }
            let block: [(String, FixtureNode)] = [
                ("app_id", "1"), ("installation_id", .plain("2")), ("private_key", "\(SampleKeys.rsa)"),
                ("repositories", .sequence(names)),
            ]
            return try GatewayStrategiesTests.problems("github_app", .mapping(block))
        }
        #expect(try problems(500) == [])
        #expect(try problems(501).contains { $0.contains("at most 500") })
    }
}
