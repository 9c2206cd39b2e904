import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

struct FailureCase: CustomTestStringConvertible {
    let answer: ScriptedTokenEndpoint.Answer
    let problem: ProblemKind
    let code: String
    let isFinal: Bool
    var testDescription: String { code }

    init(_ answer: ScriptedTokenEndpoint.Answer, _ problem: ProblemKind, _ code: String, isFinal: Bool = false) {
        self.answer = answer
        self.problem = problem
        self.code = code
        self.isFinal = isFinal
    }
}

private func lost(_ reason: TokenTransportFailure.Reason) -> ScriptedTokenEndpoint.Answer {
    .failure(TokenTransportFailure(reason, mayHaveBeenProcessed: false))
}

@Suite("When the authority fails", .timeLimit(.minutes(5)))
struct FailureTests {
    @Test(arguments: [
        FailureCase(lost(.connectionRefused), .tokenEndpointUnreachable, "connection_refused"),
        FailureCase(lost(.nameNotResolved), .tokenEndpointUnreachable, "name_not_resolved"),
        FailureCase(lost(.tlsFailed), .tokenEndpointUnreachable, "tls_failed"),
        FailureCase(lost(.connectTimeout), .tokenEndpointTimeout, "connect_timeout"),
        FailureCase(lost(.responseTimeout), .tokenEndpointTimeout, "response_timeout"),
        FailureCase(lost(.answerTooLarge), .tokenEndpointUnreachable, "answer_too_large"),
        FailureCase(lost(.unsendable), .credentialMisconfigured, "unsendable_request", isFinal: true),
        FailureCase(lost(.missingAssertion), .tokenTemporarilyUnavailable, "missing_assertion"),
        FailureCase(.json("busy", status: 503), .tokenTemporarilyUnavailable, "token-temporarily-unavailable"),
        FailureCase(.json(""), .tokenTemporarilyUnavailable, "token-temporarily-unavailable"),
        FailureCase(.error("invalid_client", status: 401), .credentialMisconfigured, "invalid_client", isFinal: true),
        FailureCase(.error("invalid_grant"), .reauthorizationRequired, "invalid_grant", isFinal: true),
    ])
    func everyClassHasItsProblemAndItsEvent(_ given: FailureCase) async throws {
        let endpoint = ScriptedTokenEndpoint([given.answer, .token("one", expiresIn: 3600)])
        try await KeeperBench(endpoint).running { bench in
            let failed = await bench.credential()
            #expect(failed.problem?.kind == given.problem)
            #expect((failed.problem?.retryAfter != nil) == !given.isFinal)
            let event = try #require(bench.audit.last(.acquisitionFailed))
            #expect(event.errorCode == given.code)
            #expect(event.outcome == .failed)
            #expect(event.waiters == 1)
            #expect(event.demand == .sample)
            // What is final is tried again by itself after five minutes.
            bench.clock.advance(by: given.isFinal ? .seconds(60) : .seconds(3600))
            let later = await bench.credential()
            #expect(later.generation == (given.isFinal ? nil : 1))
            #expect(endpoint.requests.count == (given.isFinal ? 1 : 2))
        }
    }

    @Test func retryAfterReachesTheClientAndIsHonoured() async throws {
        let busy = ScriptedTokenEndpoint.Answer.json("", status: 429, fields: [.init(name: "Retry-After", value: "30")])
        let endpoint = ScriptedTokenEndpoint([busy, .token("one", expiresIn: 3600)])
        try await KeeperBench(endpoint).running { bench in
            #expect(await bench.credential().problem?.retryAfter == .seconds(30))
            bench.clock.advance(by: .seconds(29))
            #expect(await bench.credential().problem?.retryAfter == .seconds(1))
            #expect(endpoint.requests.count == 1)
            bench.clock.advance(by: .seconds(1))
            #expect(await bench.credential().generation == 1)
        }
    }

    @Test func aLiveTokenIsServedWhileRenewalsFailAndIsRenewedBeforeItsEnd() async throws {
        let endpoint = ScriptedTokenEndpoint([
            .token("one", expiresIn: 3600), lost(.connectionRefused), .json("", status: 500),
            .token("two", expiresIn: 3600),
        ])
        try await KeeperBench(endpoint).running { bench in
            _ = await bench.credential()
            try await bench.clock.untilAsleep(moreThan: .seconds(3000))
            bench.clock.advance(by: .seconds(3240))
            for failures in 1...2 {
                try await bench.audit.untilRecorded(.renewalFailed, times: failures)
                #expect(bench.generation == 1)
                try await bench.clock.untilAsleep(atMost: .seconds(1))
                bench.clock.advance(by: .seconds(1))
            }
            let outcome1 = try await bench.untilGeneration(after: 1).generation
            #expect(outcome1 == 2)
        }
    }

    @Test func aTokenThatIsDeadOnArrivalIsNotUsed() async throws {
        struct Late: TokenGrant {
            let grant = SampleGrant()
            var identity: GrantIdentity { grant.identity }
            var isRenewable: Bool { true }
            var rotatesRefreshToken: Bool { false }
            func seed(at now: Moment) -> TokenSet? { nil }
            func firstStep(of attempt: GrantAttempt) -> GrantStep { grant.firstStep(of: attempt) }
            func injection(of token: TokenSet) -> Injection { grant.injection(of: token) }
            func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
                let now = attempt.now.wall
                return .token(TokenSet(access: Secret("dead"), obtainedAt: now, expiresAt: now))
            }
        }
        let endpoint = ScriptedTokenEndpoint { _, _ in .json("{}") }
        try await KeeperBench(endpoint, grant: Late()).running { bench in
            #expect(await bench.credential().problem?.kind == .tokenTemporarilyUnavailable)
            #expect(await bench.credential().problem != nil)
            #expect(endpoint.requests.count == 1)
        }
    }

    @Test func everyCallHasADeadline() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one")])
        try await KeeperBench(endpoint).running { bench in
            _ = await bench.credential()
            #expect(endpoint.deadlines == [.seconds(15)])
        }
    }

    /// It may repeat what it was sent, and clients must learn nothing from it.
    @Test func operatorsAreToldWhatTheAuthoritySaidAndClientsAreNot() async throws {
        let secret = "s3cret-of-mine"
        let said = "canary got \(secret)" + String(repeating: " word", count: 500)
        let endpoint = ScriptedTokenEndpoint([
            .json(#"{"error":"canary-error","error_description":"\#(said)"}"#, status: 400)
        ])
        let grant = SampleGrant(identity: .sample(secret: secret))
        try await KeeperBench(endpoint, grant: grant).running { bench in
            // The first request waits for the answer, the second finds it.
            for _ in 1...2 {
                let problem = try #require(await bench.credential().problem)
                #expect(!"\(problem)".contains("canary") && !"\(problem)".contains(secret))
                #expect(problem.cause?.code == "other")
            }
            let event = try #require(bench.audit.events.first { $0.name == .acquisitionFailed })
            #expect(event.errorCode == "other")
            #expect(event.detail["authority_code"] == "canary-error")
            let recorded = try #require(event.detail["authority_description"])
            #expect(recorded.hasPrefix("canary got ‹hidden› word"))
            #expect(recorded.count <= AuthorityText.limit + 1)
            #expect(!"\(bench.audit.events)".contains(secret))
            #expect(bench.status.state == .failed)
            #expect(bench.status.action != nil)
            #expect(bench.status.authorityError?.description == recorded)
            #expect(bench.status.lastError?.contains("canary") == false)
            #expect(!"\(bench.status)".contains(secret))
        }
    }
}
