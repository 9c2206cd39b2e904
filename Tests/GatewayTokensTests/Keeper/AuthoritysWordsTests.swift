import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Logging
import Testing

@testable import GatewayTokens

@Suite("What the authority said", .timeLimit(.minutes(5)))
struct AuthoritysWordsTests {
    private static let words = "AADSTS7: canary-secret is wrong, token ya29.a0AfB_byC1234567890abcdef too"

    @Test func theyReachTheOperatorWithoutSecretsAndNoClient() async throws {
        let body = #"{"error":"invalid_client","error_description":"\#(Self.words)","error_uri":"https://e.example/7"}"#
        let endpoint = ScriptedTokenEndpoint([.json(body, status: 401), .json(body, status: 401)])
        try await KeeperBench(endpoint).running { bench in
            let problem = try #require(await bench.credential().problem)
            #expect(!"\(problem)".contains("AADSTS7"))
            let shown = "AADSTS7: ‹hidden› is wrong, token ‹hidden› too"
            let said = try #require(bench.status.authorityError)
            #expect(said.description == shown)
            #expect((said.status, said.code, said.uri) == (401, "invalid_client", "https://e.example/7"))
            let event = try #require(bench.audit.last(.acquisitionFailed))
            #expect(event.detail["authority_description"] == shown)
            #expect(event.detail["authority_code"] == "invalid_client")
            let answer = await bench.keeper.perform(.refresh).problem
            #expect(answer?.detail.hasSuffix("The authorization server said: \(shown)") == true)
            #expect(bench.status.failing?.command == "authgateway token refresh box-service")
        }
    }

    @Test func theyStayAsLongAsTheFailure() async throws {
        let answers = [ScriptedTokenEndpoint.Answer.json("Sorry, no tokens today", status: 503)]
        let endpoint = ScriptedTokenEndpoint(answers + [.token("one", expiresIn: 60)])
        try await KeeperBench(endpoint).running { bench in
            _ = await bench.credential()
            #expect(bench.status.authorityError?.description == "Sorry, no tokens today")
            let report = try await bench.perform(.refresh)
            #expect(report.token.authorityError == nil)
            #expect(report.token.failing == nil)
        }
    }

    @Test func theStartOfTheFailureIsTheSameInEachAnswer() async throws {
        let endpoint = ScriptedTokenEndpoint([.json("", status: 503)])
        try await KeeperBench(endpoint).running { bench in
            _ = await bench.credential()
            let since = try #require(bench.status.failing?.since)
            // The two clocks are not read at once.
            let now = bench.clock.now()
            let later = Moment(monotonic: now.monotonic, wall: now.wall + .milliseconds(1))
            #expect(bench.keeper.status(at: later).failing?.since == since)
        }
    }

    @Test func requestsThatGetNoTokenAreCountedUntilThereIsOne() async throws {
        let busy = ScriptedTokenEndpoint.Answer.json("", status: 503)
        let endpoint = ScriptedTokenEndpoint([busy, .token("one", expiresIn: 3600), busy])
        try await KeeperBench(endpoint).running { bench in
            _ = await bench.credential()
            for _ in 0..<3 { bench.keeper.note(.withheld, generation: 0, by: .sample) }
            #expect(bench.status.failing?.failedRequests == 3)
            _ = try await bench.perform(.refresh)
            #expect(await bench.keeper.perform(.refresh).problem != nil)
            #expect(bench.status.failing?.failedRequests == 0)
        }
    }
}

@Suite("The clocks of authorities", .timeLimit(.minutes(5)))
struct AuthorityClocksTests {
    @Test func theDateOfEachAnswerIsMeasured() async throws {
        let clock = ManualClock()
        let ahead = clock.now().wall + .seconds(60)
        let dated = ScriptedTokenEndpoint.Answer.json("{}", fields: [.init(name: "Date", value: ahead.httpDate)])
        let endpoint = ScriptedTokenEndpoint([dated, .json("{}")])
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let clocks = AuthorityClocks(measuring: endpoint, clock: clock, logger: logger)
        let url = try AuthorityURL("https://authority.example/token")
        let endpoints = [AuthorityEndpoint](url)
        #expect(clocks.skewSeconds(of: endpoints) == nil)
        #expect(try await clocks.send(TokenRequest(url: url), deadline: .seconds(1)).get().clockSkewSeconds == 60)
        #expect(clocks.skewSeconds(of: endpoints) == 60)
        #expect(try await clocks.send(TokenRequest(url: url), deadline: .seconds(1)).get().clockSkewSeconds == nil)
        #expect(clocks.skewSeconds(of: endpoints) == 60, "an answer without a date changes nothing")
    }
}
