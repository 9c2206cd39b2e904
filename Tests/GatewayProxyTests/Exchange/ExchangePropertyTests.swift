import GatewayHTTP
import Testing

@testable import GatewayProxy

/// Random events, in any order: what must hold whatever happens.
@Suite("Exchange: properties", .timeLimit(.minutes(5)))
struct ExchangePropertyTests {
    private struct Generator: RandomNumberGenerator {
        var state: UInt64
        mutating func next() -> UInt64 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return state ^ state >> 29
        }
    }

    /// A driver that does what it is told, and keeps account.
    private struct Driver {
        var answers = 0
        var leases = 0
        var sends = 0
        /// Without those of which nothing has left.
        var requestsThatLeft = 0
        /// Of the lease at hand, since it was sent a request.
        var isSent = false
        var isHeld = false
        var isOver = false
        var isSignedAnew = false
        var complaint: String?

        mutating func perform(_ step: ExchangeStep, after event: ExchangeEvent) {
            if isOver, step != .nothing { complaint = "\(step) after the end" }
            if case .upstreamLost(let loss) = event, loss.isUnprocessed, isSent { requestsThatLeft -= 1 }
            switch step {
            case .nothing, .passInformational: break
            case .keepContent: if isSent { complaint = "collected with a connection" }
            case .reauthorize: endLease()
            case .beginAgain:
                if requestsThatLeft > 0 { complaint = "begun again although the request has left" }
                endLease()
                isOver = true
            case .connect, .collect: endLease()
            case .sendRequest:
                leases += 1
                sends += 1
                requestsThatLeft += 1
                isSent = true
            case .sendContent: if !isSent { complaint = "content without a connection" }
            case .holdResponse:
                isHeld = true
                if case .responseHead(let facts) = event, facts.rejection == .otherSignature { isSignedAnew = true }
            case .passResponse, .tunnel: answer()
            case .passHeldResponse:
                if !isHeld { complaint = "nothing was held back" }
                isHeld = false
                answer()
            case .finish:
                endLease()
                isOver = true
            case .respond:
                answer()
                endLease()
                isOver = true
            case .cut:
                if answers != 1 { complaint = "a cut without a response" }
                endLease()
                isOver = true
            case .abandon:
                if event != .clientLeft { complaint = "a client without an answer" }
                endLease()
                isOver = true
            }
        }

        private mutating func answer() {
            answers += 1
            if answers > 1 { complaint = "two answers" }
        }

        private mutating func endLease() {
            if isSent { leases -= 1 }
            isSent = false
            isHeld = false
        }
    }

    private static func takesRight(_ event: ExchangeEvent) -> Bool {
        if case .reloaded(takesRight: true, _) = event { return true }
        return event == .sourceWithdrawn
    }

    private static func event(_ random: inout Generator) -> ExchangeEvent {
        let flag = { (random: inout Generator) in Bool.random(using: &random) }
        switch Int.random(in: 0..<30, using: &random) {
        case 0, 1, 2: return .authorized
        case 3: return .credentialAwaited
        case 4: return .credentialUnavailable(.loginRequired)
        case 5: return Int.random(in: 0..<4, using: &random) == 0 ? .withdrawn : .authorized
        case 6, 7, 8: return .connected(isReused: flag(&random))
        case 9: return .connectionFailed
        case 10, 11: return .requestContent(isHeld: flag(&random), isLast: flag(&random))
        case 12: return Int.random(in: 0..<4, using: &random) == 0 ? .requestInvalid : .authorized
        case 13: return Int.random(in: 0..<4, using: &random) == 0 ? .clientLeft : .authorized
        case 14: return .informational(status: flag(&random) ? 100 : 103)
        case 15: return .responseHead(ResponseFacts(status: 200))
        case 16:
            let rejection: [ResponseFacts.Rejection] = [
                .token(isRenewable: true), .token(isRenewable: false), .tokenWithoutRenewal,
                .challenge(isAnswered: true), .challenge(isAnswered: false), .otherSignature,
            ]
            return .responseHead(
                ResponseFacts(status: 401, rejection: rejection.randomElement(using: &random) ?? .none)
            )
        case 17: return .responseHead(ResponseFacts(status: 101, switchesAsOffered: flag(&random)))
        case 18: return .responseEnded(isReusable: flag(&random))
        case 19: return .upstreamLost(ConnectionLoss(hasAnswered: flag(&random), isUnprocessed: flag(&random)))
        case 20: return flag(&random) ? .responseInvalid : .tunnelEnded
        case 22: return Int.random(in: 0..<4, using: &random) == 0 ? .sourceWithdrawn : .authorized
        case 21:
            return Int.random(in: 0..<4, using: &random) == 0
                ? .reloaded(takesRight: flag(&random), isAdmitted: flag(&random)) : .authorized
        case 23: return .bodyAwaited
        case 24: return .approvalAwaited
        case 25, 26: return .approved
        case 27: return .loginAwaited
        case 28: return .loginAnswered
        default: return .stalled(.upstreamSilent)
        }
    }

    @Test(arguments: 0..<8)
    func everyExchangeHasOneEnd(_ seed: Int) {
        var random = Generator(state: UInt64(seed) &* 0x9E37_79B9_7F4A_7C15 | 1)
        for _ in 0..<2_000 {
            let facts = RequestFacts(
                isIdempotent: .random(using: &random),
                hasContent: .random(using: &random),
                expectsContinue: .random(using: &random),
                isHTTP10: .random(using: &random)
            )
            var exchange = Exchange(facts, isRenewable: .random(using: &random))
            var (driver, history) = (Driver(), [String]())
            var isRefusedNow = false
            for _ in 0..<40 {
                let event = Self.event(&random)
                let step = exchange.handle(event)
                history.append("\(event) -> \(step)")
                driver.perform(step, after: event)
                // No head is written that would be refused now.
                if case .reloaded(_, let isAdmitted) = event, step != .beginAgain, !isAdmitted { isRefusedNow = true }
                if isRefusedNow, step == .sendRequest { Issue.record("sent: \(history)") }
                check(driver, exchange, history)
                // Whoever has no right to the route gets no more of it, in whatever phase.
                if Self.takesRight(event) {
                    #expect(exchange.phase == .done, "\(history)")
                }
                // Content that was not kept is nowhere but behind the head with the old credential.
                if step == .reauthorize { #expect(!exchange.contentHasBegun || exchange.isHolding, "\(history)") }
                if driver.complaint != nil { return }
            }
            // Whatever state it is in, a client that leaves ends it.
            driver.perform(exchange.handle(.clientLeft), after: .clientLeft)
            check(driver, exchange, history)
            #expect(exchange.phase == .done)
            #expect(driver.leases == 0, "\(history)")
        }
    }

    private func check(_ driver: Driver, _ exchange: borrowing Exchange, _ history: [String]) {
        let (phase, begun, deadline) = (exchange.phase, exchange.responseHasBegun, exchange.deadline)
        if let complaint = driver.complaint { Issue.record("\(complaint): \(history)") }
        #expect((phase == .done) == driver.isOver, "\(history)")
        #expect(driver.leases == 0 || driver.leases == 1, "\(history)")
        // Once for each token and each signature, and once more for each where a pooled connection was lost.
        #expect(driver.sends <= (driver.isSignedAnew ? 10 : 4), "\(history)")
        #expect(!begun || driver.answers == 1, "\(history)")
        // Whoever has the request is waited for under a limit.
        if phase == .collecting || phase == .holding || phase == .answering || phase == .forwarding
            || phase == .responding || phase == .tunnelling
        {
            #expect(deadline != .none, "\(history)")
        }
        if phase == .done { #expect(deadline == .none, "\(history)") }
    }
}
