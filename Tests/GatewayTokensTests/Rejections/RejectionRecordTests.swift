import GatewayTesting
import Testing

@testable import GatewayTokens

/// Each script reads as what the upstream did with a request and, behind the arrow, what becomes of a rejection. `2 GET /x` is a
/// request of route 2, `200 4` a success under generation 4, `401 4` a rejection of it, and `again 4` one that the second try got.
@Suite("Rejection record", .timeLimit(.minutes(5)))
struct RejectionRecordTests {
    struct Script: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let text: String
    }

    private static func key(_ record: RejectionRecord, _ route: Int, _ line: String) -> RejectionLedger.Key {
        HeadText.request(line: "\(line) HTTP/1.1") { record.key(route, $0, $1) } ?? ledgerKey("none")
    }

    private static func play(_ text: String, on record: RejectionRecord) {
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: "->").map { $0.split(separator: " ").map(String.init) }
            let words = parts[0]
            let key = key(record, Int(words[0]) ?? 0, "\(words[1]) \(words[2])")
            let generation = Int(words[4]) ?? 0
            let now = second(words.count > 5 ? Int(words[5].dropLast()) ?? 0 : 0)
            switch words[3] {
            case "200": record.confirm(key, generation: generation)
            case "again": record.rejectedAgain(key, generation: generation, at: now)
            default:
                let client = words.count > 6 ? words[6] : "a"
                let decision = record.decision(for: key, generation: generation, client: client, at: now)
                #expect(parts.count > 1 && "\(decision)".hasPrefix(parts[1][0]), "\(line)")
            }
        }
    }

    @Test(arguments: scripts)
    func itAnswersAsWritten(_ script: Script) { Self.play(script.text, on: RejectionRecord()) }

    /// Only a person can replace it.
    @Test func aTokenThatCannotBeRenewedEndsWhereItHasWorked() {
        let record = RejectionRecord()
        let (works, never) = (Self.key(record, 0, "GET /works"), Self.key(record, 0, "GET /never"))
        // It has worked nowhere: it may well be a wrong one.
        #expect(record.endsToken(never, generation: 1) && record.endsToken(works, generation: 1))
        record.confirm(works, generation: 1)
        #expect(!record.endsToken(never, generation: 1))
        #expect(record.endsToken(works, generation: 1))
        // The next one has to show itself.
        #expect(record.endsToken(never, generation: 2))
        record.confirm(works, generation: 2)
        #expect(!record.endsToken(never, generation: 2))
        #expect(!record.endsToken(works, generation: 1))
    }

    @Test func aTokenThatCannotBeRenewedIsJudgedByWhereItHasWorkedAndCostsNothing() {
        let record = RejectionRecord()
        let (works, never) = (Self.key(record, 0, "GET /works"), Self.key(record, 0, "GET /never"))
        let verdict = { (key: RejectionLedger.Key) in
            record.verdict(on: key, generation: 1, isRenewable: false, client: "a", at: second(0))
        }
        #expect(verdict(never) == .counts)
        record.confirm(works, generation: 1)
        for _ in 1...RejectionLedger.Rules().renewalsPerClient { #expect(verdict(works) == .counts) }
        #expect(verdict(never) == .withoutRenewal)
        #expect(record.emptyBudgets(at: second(0), limit: 1).isEmpty)
    }

    @Test func aTokenThatCanBeRenewedIsJudgedByThePathAndTheBudget() {
        var rules = RejectionLedger.Rules()
        rules.renewalsPerClient = 1
        let record = RejectionRecord(rules)
        let (one, other) = (Self.key(record, 0, "GET /one"), Self.key(record, 0, "GET /other"))
        let verdict = { (key: RejectionLedger.Key, generation: Int, time: Int) in
            record.verdict(
                on: key,
                generation: generation,
                isRenewable: true,
                client: "a",
                at: second(time)
            )
        }
        #expect(verdict(one, 1, 0) == .counts)
        record.rejectedAgain(one, generation: 2, at: second(0))
        #expect(verdict(one, 2, 1) == .withoutRenewal)
        #expect(verdict(other, 2, 1) == .overBudget(until: second(300)))
        #expect(verdict(other, 2, 300) == .counts)
    }

    private static let scripts: [Script] = [
        Script(
            testDescription: "a late rejection of a token that was replaced in the ordinary way begins no pause",
            text: """
                0 GET /x 401 1 0s    -> counts
                0 GET /x again 3 0s
                0 GET /y 401 2 1s    -> counts
                0 GET /y 401 3 1s    -> counts
                """
        ),
        Script(
            testDescription: "a path that rejects each token",
            text: """
                0 GET /x 401 1 0s    -> counts
                0 GET /x again 2 0s
                0 GET /x 401 2 1s    -> suppressed
                0 GET /x 401 2 10s   -> counts
                """
        ),
        Script(
            testDescription: "a path that has accepted the token",
            text: """
                0 GET /x 401 1 0s    -> counts
                0 GET /x 200 2
                0 GET /x 401 2 1s    -> counts
                """
        ),
        Script(
            testDescription: "a path that has accepted an older or a newer token",
            text: """
                0 GET /x 200 1
                0 GET /x 401 1 0s    -> counts
                0 GET /x 401 2 1s    -> suppressed
                0 GET /x 200 3
                0 GET /x 401 2 1s    -> suppressed
                0 GET /x 401 3 1s    -> counts
                """
        ),
        Script(
            testDescription: "identifiers are one path, queries are none",
            text: """
                0 GET /users/42?a 401 1 0s   -> counts
                0 GET /users/43 401 2 1s     -> suppressed
                0 GET /users/44?b=1 401 2 1s -> suppressed
                0 GET /users/45?c 200 2
                0 GET /users/46 401 2 1s     -> counts
                """
        ),
        Script(
            testDescription: "methods have paths of their own",
            text: """
                0 GET /x 401 1 0s    -> counts
                0 PUT /x 200 2
                0 GET /x 401 2 1s    -> suppressed
                0 PUT /x 401 2 1s    -> counts
                0 HEAD /x 401 3 1s   -> counts
                """
        ),
        Script(
            testDescription: "routes have paths of their own",
            text: """
                0 GET /x 401 1 0s    -> counts
                0 GET /x 401 2 1s    -> suppressed
                1 GET /x 401 2 1s    -> counts
                0 GET /x 401 3 2s    -> suppressed
                1 GET /x 401 3 2s    -> suppressed
                """
        ),
        Script(
            testDescription: "what one route has accepted, another has not",
            text: """
                0 GET /x 401 1 0s    -> counts
                1 GET /x 200 2
                0 GET /x 401 2 1s    -> suppressed
                0 GET /x 200 2
                0 GET /x 401 2 1s    -> counts
                """
        ),
        Script(
            testDescription: "a second try of one route begins no pause of another",
            text: """
                0 GET /x 401 1 0s    -> counts
                1 GET /x again 2 0s
                1 GET /x 401 2 1s    -> suppressed
                2 GET /x 401 2 1s    -> counts
                """
        ),
        Script(
            testDescription: "the second rejection begins the pause anew, once",
            text: """
                0 GET /x 401 1 0s    -> counts
                0 GET /x again 2 8s
                0 GET /x again 2 15s
                0 GET /x 401 2 17s   -> suppressed
                0 GET /x 401 2 18s   -> counts
                """
        ),
        Script(
            testDescription: "all routes know of a token that was replaced",
            text: """
                0 GET /x 401 4 0s    -> counts
                1 GET /y 401 4 0s    -> counts
                1 GET /y 401 5 0s    -> counts
                0 GET /x 401 4 1s    -> counts
                """
        ),
    ]

    @Test func aClientHasOneBudgetForAllRoutes() {
        var rules = RejectionLedger.Rules()
        rules.renewalsPerClient = 2
        Self.play(
            """
            0 GET /a 401 1 0s a  -> counts
            1 GET /a 401 2 0s a  -> counts
            2 GET /a 401 3 0s a  -> overBudget
            0 GET /b 401 3 0s a  -> overBudget
            2 GET /a 401 3 0s b  -> counts
            """,
            on: RejectionRecord(rules)
        )
    }

    /// Rejections of ever newer generations by one client, which may cause two renewals.
    private func rejectionsThatCount(each step: Int = 1, then follow: (RejectionRecord, Int) -> Void) -> Int {
        var rules = RejectionLedger.Rules()
        rules.renewalsPerClient = 2
        let record = RejectionRecord(rules)
        for number in 0..<20 {
            let generation = 1 + number * step
            let key = Self.key(record, 0, "GET /\(["a", "b"][number % 2])")
            record.confirm(key, generation: generation)
            let decision = record.decision(for: key, generation: generation, client: "a", at: second(0))
            guard decision == .counts else { return number }
            follow(record, generation)
        }
        return 20
    }

    @Test func aClientPaysForWhatItsRejectionsCause() {
        #expect(rejectionsThatCount { $0.replaced(by: $1 + 1, isOwn: true, at: second(0)) } == 2)
    }

    @Test func aTokenOfAnotherGatewayCostsNoClientAnything() {
        #expect(rejectionsThatCount { $0.replaced(by: $1 + 1, isOwn: false, at: second(0)) } == 20)
    }

    @Test func aRenewalThatWasUnderWayCostsNoClientAnything() {
        let count = rejectionsThatCount {
            $0.causedNothing($1)
            $0.replaced(by: $1 + 1, isOwn: true, at: second(0))
        }
        #expect(count == 20)
    }

    /// A client that has two gateways renew in turn gets nothing back for what the other one renewed.
    @Test func whatTheAuthorityWasAskedForIsNotPaidBack() {
        let count = rejectionsThatCount(each: 2) {
            $0.replaced(by: $1 + 1, isOwn: true, at: second(0))
            $0.replaced(by: $1 + 2, isOwn: false, at: second(0))
        }
        #expect(count == 2)
    }

    @Test func aCallThatFailedIsNotPaidBack() {
        let count = rejectionsThatCount {
            $0.failed()
            $0.replaced(by: $1 + 1, isOwn: false, at: second(0))
        }
        #expect(count == 2)
    }

    /// No client gets back more than it has paid.
    @Test func aRejectionIsPaidBackOnce() {
        let count = rejectionsThatCount { record, generation in
            for _ in 0..<(generation == 2 ? 5 : 0) { record.causedNothing(generation) }
            record.replaced(by: generation + 1, isOwn: true, at: second(0))
        }
        #expect(count == 3)
    }

    @Test func whatIsRejectedLateCostsNothing() {
        var rules = RejectionLedger.Rules()
        rules.renewalsPerClient = 1
        let record = RejectionRecord(rules)
        for generation in 1...5 {
            record.replaced(by: generation + 1, isOwn: true, at: second(0))
            let key = Self.key(record, generation, "GET /x")
            #expect(record.decision(for: key, generation: generation, client: "a", at: second(0)) == .counts)
        }
        let key = Self.key(record, 9, "GET /x")
        #expect(record.decision(for: key, generation: 6, client: "a", at: second(0)) == .counts)
        let last = record.decision(for: key, generation: 7, client: "a", at: second(20))
        #expect(last == .overBudget(until: second(300)))
    }

    @Test func theRulesAreThoseOfTheLedger() {
        var rules = RejectionLedger.Rules()
        rules.firstPause = .seconds(3)
        Self.play(
            """
            0 GET /x 401 1 0s    -> counts
            0 GET /x 401 2 2s    -> suppressed
            0 GET /x 401 2 3s    -> counts
            """,
            on: RejectionRecord(rules)
        )
    }

    // MARK: Free renewals

    /// A client that has spent all it will ever have.
    private static func spent() -> RejectionRecord {
        var rules = RejectionLedger.Rules()
        (rules.renewalsPerClient, rules.renewalInterval) = (1, .seconds(100_000))
        let record = RejectionRecord(rules)
        let decision = record.decision(for: key(record, 9, "GET /z"), generation: 1, client: "a", at: second(0))
        #expect(decision == .counts)
        record.replaced(by: 2, isOwn: true, at: second(0))
        return record
    }

    private static func rejected(_ record: RejectionRecord, _ path: String, _ generation: Int, at time: Int)
        -> RejectionLedger.RejectionDecision
    {
        record.decision(for: key(record, 0, path), generation: generation, client: "a", at: second(time))
    }

    @Test(arguments: [(301, true, 30), (61, true, 1), (59, true, 0), (301, false, 0)])
    func aTokenThatWorkedForAMinuteIsRenewedAtNoOnesExpense(_ life: Int, _ isAccepted: Bool, _ renewals: Int) {
        let record = Self.spent()
        var (now, count) = (0, 0)
        for generation in 2...31 {
            let key = Self.key(record, 0, "GET /x")
            if isAccepted { record.confirm(key, generation: generation) }
            now += life
            guard Self.rejected(record, "GET /x", generation, at: now) == .counts else { break }
            count += 1
            record.replaced(by: generation + 1, isOwn: true, at: second(now))
            record.accepted(key, generation: generation + 1, at: second(now))
        }
        #expect(count == renewals)
    }

    @Test func thatHappensOncePerHalfOfTheLifeForTheWholeCredential() {
        let record = Self.spent()
        record.confirm(Self.key(record, 0, "GET /x"), generation: 2)
        #expect(Self.rejected(record, "GET /x", 2, at: 800) == .counts)
        record.replaced(by: 3, isOwn: true, at: second(800))
        record.accepted(Self.key(record, 0, "GET /x"), generation: 3, at: second(800))
        record.confirm(Self.key(record, 0, "GET /y"), generation: 3)
        #expect(Self.rejected(record, "GET /y", 3, at: 870) == .overBudget(until: second(1200)))
        #expect(Self.rejected(record, "GET /y", 3, at: 1200) == .counts)
    }

    /// The client has left, or its content was not held: nothing says whether the newer token was accepted there.
    @Test func withoutTheSecondResponseTheNextOneWaitsForTenMinutes() {
        let record = Self.spent()
        record.confirm(Self.key(record, 0, "GET /x"), generation: 2)
        #expect(Self.rejected(record, "GET /x", 2, at: 400) == .counts)
        record.replaced(by: 3, isOwn: true, at: second(400))
        record.confirm(Self.key(record, 0, "GET /x"), generation: 3)
        #expect(Self.rejected(record, "GET /x", 3, at: 700) == .overBudget(until: second(1000)))
        #expect(Self.rejected(record, "GET /x", 3, at: 1000) == .counts)
    }

    @Test func oneThatAnotherGatewayHasRenewedTakesNothing() {
        let record = Self.spent()
        record.confirm(Self.key(record, 0, "GET /x"), generation: 2)
        #expect(Self.rejected(record, "GET /x", 2, at: 400) == .counts)
        record.replaced(by: 3, isOwn: false, at: second(400))
        record.confirm(Self.key(record, 0, "GET /y"), generation: 3)
        #expect(Self.rejected(record, "GET /y", 3, at: 461) == .counts)
    }

    /// The same request was rejected with the newer token, too.
    @Test func oneThatWasNoRevocationStopsThemForTenMinutes() {
        let record = Self.spent()
        let key = Self.key(record, 0, "GET /x")
        record.confirm(key, generation: 2)
        #expect(Self.rejected(record, "GET /x", 2, at: 400) == .counts)
        record.replaced(by: 3, isOwn: true, at: second(400))
        record.rejectedAgain(key, generation: 3, at: second(400))
        record.confirm(key, generation: 3)
        record.confirm(Self.key(record, 0, "GET /y"), generation: 3)
        #expect(Self.rejected(record, "GET /y", 3, at: 700) == .overBudget(until: second(1000)))
        #expect(Self.rejected(record, "GET /x", 3, at: 700) == .overBudget(until: second(100_000)))
        #expect(Self.rejected(record, "GET /y", 3, at: 1000) == .counts)
    }

    @Test func theBudgetsThatAreEmptyAreNamed() {
        let empty = Self.spent().emptyBudgets(at: second(1), limit: 8)
        #expect(empty.map(\.client) == ["a"] && empty.map(\.fillsAt) == [second(100_000)])
        #expect(RejectionRecord().emptyBudgets(at: second(1), limit: 8).isEmpty)
        var rules = RejectionLedger.Rules()
        rules.renewalsPerClient = 1
        let record = RejectionRecord(rules)
        for number in 1...20 {
            _ = record.decision(
                for: Self.key(record, number, "GET /x"),
                generation: number,
                client: "client \(number)",
                at: second(0)
            )
        }
        #expect(record.emptyBudgets(at: second(1), limit: 8).count == 8)
        #expect(record.emptyBudgets(at: second(300), limit: 8).isEmpty)
    }

    // MARK: Engines

    /// Without an acceptance, the pauses of 10, 20, 40 and 80 s would hide the fifth revocation.
    @Test func anEngineThatWasSilentForAWhileHadItsTokenAccepted() {
        let record = RejectionRecord()
        let key = Self.key(record, 0, "GET /x")
        var (now, counted) = (0, 0)
        for generation in 1...20 {
            record.handedOut(key, generation: generation, at: second(now))
            record.reported(key, generation: generation, at: second(now + 50))
            let decision = record.decision(for: key, generation: generation, client: "a", at: second(now + 50))
            guard decision == .counts else { break }
            counted += 1
            now += 55
            record.replaced(by: generation + 1, isOwn: true, at: second(now))
        }
        // 12 at once, and one more every 5 minutes: the tokens are too short-lived to be free.
        #expect(counted == 14)
    }

    /// - Parameter reports: Seconds of the reports of the third token, which is handed out at 12 s while the pause lasts to 31 s.
    private static func counts(after reports: [Int]) -> Bool {
        let record = RejectionRecord()
        let key = key(record, 0, "GET /x")
        _ = record.decision(for: key, generation: 1, client: "a", at: second(1))
        _ = record.decision(for: key, generation: 2, client: "a", at: second(11))
        record.handedOut(key, generation: 3, at: second(12))
        for report in reports { record.reported(key, generation: 3, at: second(report)) }
        return record.decision(for: key, generation: 3, client: "a", at: second(reports.last ?? 0)) == .counts
    }

    @Test func anEngineThatReportsATokenAtOnceHasNotHadItAccepted() {
        #expect(Self.counts(after: [25]))
        #expect(!Self.counts(after: [20]))
        #expect(!Self.counts(after: [13, 25]), "what follows a report is no silence")
    }

    @Test func whatALongLivedTokenCostsBehindAnEngineIsFree() {
        var rules = RejectionLedger.Rules()
        rules.renewalsPerClient = 0
        let record = RejectionRecord(rules)
        let key = Self.key(record, 0, "GET /x")
        record.replaced(by: 1, isOwn: true, at: second(0))
        record.handedOut(key, generation: 1, at: second(1))
        record.reported(key, generation: 1, at: second(100))
        #expect(record.decision(for: key, generation: 1, client: "a", at: second(100)) == .counts)
    }

    // MARK: Keys

    @Test func keysTellRoutesMethodsAndPathsApart() {
        let record = RejectionRecord()
        let key = Self.key(record, 0, "GET /users/42")
        #expect(key == Self.key(record, 0, "GET /users/42"))
        #expect(key == Self.key(record, 0, "GET /users/7?q=1"))
        #expect(key != Self.key(record, 0, "PUT /users/42"))
        #expect(key != Self.key(record, 0, "GET /groups/42"))
        #expect(key.route == 0)
        #expect(Self.key(record, 9, "GET /users/42").route == 9)
    }

    /// ``ConfirmedTemplates`` know no routes: their templates differ.
    @Test func routesDoNotShareTemplates() {
        let record = RejectionRecord()
        let templates = (0..<1000).map { Self.key(record, $0, "GET /users/42").template }
        #expect(Set(templates).count == 1000)
        #expect(Set(templates.map { $0.hash >> 55 }).count > 300)
    }

    /// Nobody can compute two paths with one template.
    @Test func recordsDoNotShareTemplates() {
        let templates = (0..<100).map { _ in Self.key(RejectionRecord(), 0, "GET /users/42").template }
        #expect(Set(templates).count == 100)
    }

    @Test func recordsKnowNothingOfEachOther() {
        let (one, other) = (RejectionRecord(), RejectionRecord())
        Self.play("0 GET /x 401 1 0s -> counts\n0 GET /x 401 2 1s -> suppressed", on: one)
        Self.play("0 GET /x 401 2 1s -> counts", on: other)
    }
}
