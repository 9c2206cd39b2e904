import GatewayTesting
import Testing

@testable import GatewayHTTP
@testable import GatewayTokens

/// What a client with a valid token for the gateway can do with a credential that others use, too.
@Suite("Rejection ledger: abuse", .timeLimit(.minutes(5)))
struct RejectionLedgerAbuseTests {
    /// A credential whose every rejection that counts brings a new token.
    private struct Credential {
        var ledger = RejectionLedger()
        var generation = 1

        /// - Returns: Whether a new token was obtained for it.
        @discardableResult
        mutating func reject(
            _ path: String,
            by client: String?,
            at time: MonotonicTime,
            isConfirmed: Bool = false,
            reportsSecond: Bool = true
        ) -> Bool {
            let key = ledgerKey(path)
            let decision = ledger.decision(
                for: key,
                generation: generation,
                client: client,
                isConfirmed: isConfirmed,
                at: time
            )
            guard decision == .counts else { return false }
            generation += 1
            if reportsSecond { ledger.rejectedAgain(key, generation: generation, at: time) }
            return true
        }
    }

    private func word(_ number: Int) -> String {
        "/" + String(String(number, radix: 2).map { $0 == "0" ? "a" : "b" })
    }

    @Test(arguments: [true, false])
    func onePathThatRejectsEveryToken(_ reportsSecond: Bool) {
        var (credential, renewals) = (Credential(), 0)
        for second in 0..<3600 {
            for part in 0..<10 {
                let now = second.monotonic + .milliseconds(part * 100)
                renewals += credential.reject("/x", by: "a", at: now, reportsSecond: reportsSecond) ? 1 : 0
            }
        }
        // At 0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430 and 3030 s.
        #expect(renewals == 11)
    }

    @Test(arguments: [true, false])
    func everNewPathsSpendTheBudgetOfTheClientAlone(_ reportsSecond: Bool) {
        var (credential, renewals, path) = (Credential(), [0, 0, 0], 0)
        for second in 0..<10_800 {
            for _ in 0..<3 {
                path += 1
                let now = second.monotonic
                if credential.reject(word(path), by: "a", at: now, reportsSecond: reportsSecond) {
                    renewals[second / 3600] += 1
                }
            }
        }
        #expect(renewals == [23, 12, 12])
    }

    /// `/items/1` answers 200 and `/items/2` answers 401 to every token: the template always counts.
    @Test func aPathThatAcceptsAndRejectsInTurnSpendsTheBudgetOfTheClientAlone() {
        var (credential, renewals) = (Credential(), 0)
        for second in 0..<3600 {
            renewals += credential.reject("/items/2", by: "a", at: second.monotonic, isConfirmed: true) ? 1 : 0
        }
        #expect(renewals == 23)
        // The revocation that another client meets is noticed at once, there and elsewhere.
        let confirmed = credential.reject("/items/3", by: "b", at: 3600.monotonic, isConfirmed: true)
        let elsewhere = credential.reject("/new", by: "c", at: 3600.monotonic)
        #expect(confirmed && elsewhere)
    }

    /// Ever new templates that answer 200 for one number and 401 for another, to a client that has spent its budget. The second 401
    /// shows that it was no revocation.
    @Test func aFreeRenewalThatWasNoRevocationIsTheLastForAWhile() {
        var (credential, renewals) = (Credential(), 0)
        for number in 0..<12 { credential.reject(word(number), by: "a", at: 0.monotonic) }
        for second in 61..<3600 {
            let path = "/items" + word(second)
            renewals += credential.reject(path, by: "a", at: second.monotonic, isConfirmed: true) ? 1 : 0
        }
        // One every 5 minutes of the budget, and one every 10 minutes that is free.
        #expect((12...18).contains(renewals), "\(renewals)")
    }

    @Test func aSpentBudgetDoesNotStopAnotherClient() {
        var credential = Credential()
        for number in 0..<100 { credential.reject(word(number), by: "a", at: 0.monotonic) }
        let spent = credential.reject("/new", by: "a", at: 0.monotonic)
        let other = credential.reject("/new", by: "b", at: 0.monotonic)
        let unnamed = credential.reject("/newer", by: nil, at: 0.monotonic)
        let empty = credential.reject("/newest", by: "", at: 0.monotonic)
        #expect(!spent && other && unnamed && empty)
    }

    @Test func clientsWithoutANameShareABudget() {
        var (credential, renewals) = (Credential(), 0)
        for number in 0..<100 { renewals += credential.reject(word(number), by: nil, at: 0.monotonic) ? 1 : 0 }
        #expect(renewals == 12)
    }

    @Test func aProbeThatAClientCannotPayForIsLeftToOthers() {
        var credential = Credential()
        credential.reject("/x", by: "a", at: 0.monotonic)
        for number in 0..<100 { credential.reject(word(number), by: "a", at: 0.monotonic) }
        let spent = credential.reject("/x", by: "a", at: 11.monotonic)
        let other = credential.reject("/x", by: "b", at: 11.monotonic)
        #expect(!spent && other)
    }

    /// The second tries of requests that were under way together are free, and each is of another path.
    @Test func aFloodOfPathsDoesNotEndTheLongPauseOfAnother() {
        var credential = Credential()
        for second in [0, 10, 30, 70, 150, 310, 630] { credential.reject("/x", by: "a", at: second.monotonic) }
        for number in 0..<5000 {
            credential.ledger.rejectedAgain(
                ledgerKey(word(number)),
                generation: credential.generation,
                at: 700.monotonic
            )
        }
        #expect(credential.ledger.templateCount == 256)
        let early = credential.reject("/x", by: "b", at: 1229.monotonic)
        let due = credential.reject("/x", by: "b", at: 1230.monotonic)
        #expect(!early && due)
    }

    /// With each new token, requests that were under way with the old one are tried again.
    @Test func secondTriesDoNotPutOffTheProbe() {
        var credential = Credential()
        for second in [0, 10, 30, 70, 150, 310, 630] { credential.reject("/x", by: "a", at: second.monotonic) }
        for second in 631..<1230 {
            credential.generation += 1
            credential.ledger.rejectedAgain(
                ledgerKey("/x"),
                generation: credential.generation,
                at: second.monotonic
            )
        }
        let due = credential.reject("/x", by: "b", at: 1230.monotonic)
        #expect(due)
    }

    /// Requests with one token, of which the client makes very many at once.
    @Test func manyRequestsWithOneTokenAreOneRejection() {
        var ledger = RejectionLedger()
        for number in 0..<1000 {
            let decision = ledger.decision(
                for: ledgerKey(word(number)),
                generation: 4,
                client: "a",
                isConfirmed: false,
                at: 0.monotonic
            )
            #expect(decision == .counts)
        }
        // The budget has paid for one.
        var renewals = 1
        for generation in 5..<100 {
            let decision = ledger.decision(
                for: ledgerKey("/new" + word(generation)),
                generation: generation,
                client: "a",
                isConfirmed: false,
                at: 0.monotonic
            )
            renewals += decision == .counts ? 1 : 0
        }
        #expect(renewals == 12)
        #expect(ledger.templateCount == 12)
    }

    @Test func theClientsThatAreRememberedAreBounded() {
        var credential = Credential()
        for number in 0..<5000 {
            let isNoticed = credential.reject(word(number), by: "client \(number)", at: 0.monotonic)
            #expect(isNoticed)
        }
        #expect(credential.ledger.clientCount == 1024)
        credential.reject("/later", by: "another", at: 3600.monotonic)
        #expect(credential.ledger.clientCount == 1)
    }

    /// Whoever has spent the most is forgotten last.
    @Test func manyClientsDoNotGiveASpentBudgetBack() {
        var credential = Credential()
        for number in 0..<12 { credential.reject(word(number), by: "a", at: 0.monotonic) }
        for number in 0..<5000 { credential.reject(word(number + 12), by: "client \(number)", at: 0.monotonic) }
        let spent = credential.reject("/new", by: "a", at: 0.monotonic)
        #expect(!spent)
    }

    /// Several clients together, whatever they do: the sum of their budgets, and one of them never spends another's.
    @Test(arguments: 0..<4)
    func renewalsAreBoundedWhateverClientsDo(_ seed: UInt64) {
        var random = SplitMix(seed: seed)
        var (credential, renewals) = (Credential(), [String: Int]())
        var now = 0.monotonic
        for _ in 0..<20_000 {
            now = now + .milliseconds(Int.random(in: 0..<1000, using: &random))
            let client = ["a", "b", "c"].randomElement(using: &random) ?? "a"
            let renewed = credential.reject(
                word(Int.random(in: 0..<400, using: &random)),
                by: client,
                at: now,
                isConfirmed: Int.random(in: 0..<10, using: &random) == 0,
                reportsSecond: .random(using: &random)
            )
            if renewed { renewals[client, default: 0] += 1 }
        }
        let refills = Int((now - 0.monotonic) / .seconds(300))
        // Those of tokens that were accepted and lived for a minute are free, for all clients together.
        let free = Int((now - 0.monotonic) / .seconds(60))
        for (client, count) in renewals { #expect(count <= 12 + refills + free, "\(client)") }
        #expect(renewals.values.reduce(0, +) <= 3 * (12 + refills) + free)
        #expect(credential.ledger.templateCount <= 256)
        // Whatever happened, a client that has caused nothing is heard.
        let isHeard = credential.reject("/fresh", by: "d", at: now)
        #expect(isHeard)
    }
}

extension Int {
    fileprivate var monotonic: MonotonicTime { second(self) }
}
