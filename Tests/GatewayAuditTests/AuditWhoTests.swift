import GRDB
import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayAudit

@Suite("Sums for one credential", .timeLimit(.minutes(1)))
struct AuditWhoTallyTests {
    private func answer(
        _ uses: [AuditWhoTally.Use],
        by grouping: AuditWho.Grouping = .client,
        recordedSince: String? = "2026-03-01T09:00:00.000Z"
    ) -> AuditWho {
        var tally = AuditWhoTally(AuditWho.Question(credential: "box", by: grouping))
        for use in uses { tally.add(use) }
        return tally.answer(recordedSince: recordedSince)
    }

    private func use(_ minute: Int, _ name: String = "", _ statusClass: Int64 = 2, _ requests: Int = 1)
        -> AuditWhoTally.Use
    {
        let minute = "2026-03-01T09:\(minute < 10 ? "0" : "")\(minute):00.000Z"
        return AuditWhoTally.Use(minute: minute, name: name, statusClass: statusClass, requests: requests)
    }

    private func results(_ group: AuditWho.Group?) -> [String] {
        group?.results.map { "\($0.status) \($0.requests)" } ?? []
    }

    @Test func groupsComeWithTheMostRequestsFirst() {
        let answer = answer([use(5, "ci", 2, 3), use(3, "ci", 5), use(4, "", 2, 3), use(7, "laptop", 2, 9)])
        #expect(answer.groups.map(\.name) == ["laptop", "ci", nil])
        #expect(answer.groups[1].firstAt == "2026-03-01T09:03:00.000Z")
        #expect(answer.groups[1].lastAt == "2026-03-01T09:05:00.000Z")
        #expect(results(answer.groups[1]) == ["2xx 3", "5xx 1"])
        #expect(answer.total?.requests == 16 && results(answer.total) == ["2xx 15", "5xx 1"])
        #expect(answer.total?.firstAt == "2026-03-01T09:03:00.000Z" && answer.total?.name == nil)
    }

    @Test func refusalsAreToldApartFromOtherErrorsOfTheClient() {
        var told = use(1, "ci", 4, 10)
        (told.unauthorized, told.forbidden, told.tooMany) = (3, 0, 2)
        let answer = answer([told, use(2, "ci", 4, 7), use(3, "ci", 0)], by: .status)
        #expect(answer.groups.map(\.name) == ["401", "429", "4xx", "no response"])
        #expect(answer.groups.map(\.requests) == [3, 2, 12, 1])
        #expect(answer.groups[0].lastAt == "2026-03-01T09:01:00.000Z")
    }

    @Test func rowsThatWereTamperedWithDoNotTrap() {
        var odd = use(1, "ci", 4, .max)
        (odd.unauthorized, odd.forbidden, odd.tooMany) = (.max, .max, .min)
        let answer = answer([
            odd, use(2, "ci", 2, .max), use(3, "ci", 77), use(4, "ci", 2, .min), use(5, "ci", .min, -1),
        ])
        #expect(answer.total?.requests == .max)
    }

    @Test func anAnswerThatTheLogDoesNotHaveIsNoAnswer() {
        #expect(answer([use(1)]).gap(countsUses: false) == nil)
        #expect(answer([]).gap(countsUses: true) == nil, "nobody used it")
        #expect(answer([], recordedSince: nil).gap(countsUses: true) == nil)
        #expect(answer([]).gap(countsUses: false)?.contains("audit.usage is none") == true)
        #expect(answer([], recordedSince: nil).gap(countsUses: false)?.contains("audit.usage is none") == true)
        var tally = AuditWhoTally(
            AuditWho.Question(credential: "box", until: UnixTime(rfc3339: "2026-03-01T08:00:00Z"))
        )
        #expect(
            tally.answer(recordedSince: "2026-03-01T09:00:00.000Z").gap(countsUses: true)?.contains("09:00") == true
        )
        tally.add(use(1))
        #expect(tally.answer(recordedSince: "2026-03-01T09:00:00.000Z").gap(countsUses: true) == nil)
    }
}

@Suite("Who used a credential", .timeLimit(.minutes(5)))
struct AuditWhoTests {
    let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    private var now: UnixTime { fixture.clock.now().wall }

    private func use(
        _ credential: String,
        _ client: String?,
        status: Int = 200,
        requests: Int = 1,
        minutesAgo: Int64 = 0
    ) -> TokenUse {
        let minute = (now + .seconds(-60 * minutesAgo)).startOfMinute
        return TokenUse(
            key: TokenUse.Key(
                minute: minute,
                route: "files",
                client: client,
                credential: credential,
                generation: 1,
                statusClass: status / 100
            ),
            requests: requests,
            refusals: TokenUse.Refusals(status: status, requests: requests),
            bytesReceived: 0,
            bytesSent: 0
        )
    }

    private func fill(_ log: SQLiteAuditLog) {
        for (client, status, requests, minutesAgo) in [
            ("ci", 200, 5, 90), ("ci", 401, 2, 30), ("laptop", 403, 1, 20), ("laptop", 404, 1, 20),
            ("laptop", 429, 3, 20),
        ] as [(String, Int, Int, Int64)] {
            log.count(use("box", client, status: status, requests: requests, minutesAgo: minutesAgo))
        }
        log.count(use("box[user:42]", nil, minutesAgo: 10))
        log.count(use("boxer", "other", requests: 100))
        log.count(use("bo", "other", requests: 100))
    }

    private func question(_ by: AuditWho.Grouping = .client, since: Int64? = nil, until: Int64? = nil)
        -> AuditWho.Question
    {
        AuditWho.Question(
            credential: "box",
            by: by,
            since: since.map { now + .seconds(-60 * $0) },
            until: until.map { now + .seconds(-60 * $0) }
        )
    }

    @Test func theCredentialAndItsSubjectsCountAndNoOtherOne() async throws {
        let log = try fixture.open()
        fill(log)
        await log.close()
        let byClient = try await fixture.reader.who(question())
        #expect(byClient.groups.map(\.name) == ["ci", "laptop", nil] && byClient.groups.map(\.requests) == [7, 5, 1])
        let byStatus = try await fixture.reader.who(question(.status))
        #expect(
            byStatus.groups.map { "\($0.name ?? "-") \($0.requests)" } == ["2xx 6", "401 2", "403 1", "429 3", "4xx 1"]
        )
        #expect(try await fixture.reader.who(question(.route)).groups.map(\.name) == ["files"])
        #expect(byClient.recordedSince == (now + .seconds(-90 * 60)).startOfMinute.rfc3339)
        let some = try await fixture.reader.who(question(since: 25, until: 15))
        #expect(some.groups.map(\.name) == ["laptop"] && some.total?.requests == 5)
        let none = try await fixture.reader.who(question(since: 60, until: 45))
        #expect(none.groups.isEmpty && none.total == nil && none.gap(countsUses: true) == nil)
        #expect(try await fixture.reader.who(question(until: 120)).gap(countsUses: true) != nil)
    }

    /// Requests have names: the first and the last one of each group are told.
    @Test func theFirstAndTheLastRequestAreNamedWhereTheyAreRecorded() async throws {
        let log = try fixture.open()
        log.count(use("box", "ci", requests: 3))
        log.count(use("box", nil, status: 401))
        await log.flushUsage()
        for (number, client, status) in [(1, "ci", 200), (2, nil, 401), (3, "ci", 200), (4, "ci", 200)]
            as [(Int64, String?, Int)]
        {
            let at = now.startOfMinute + .seconds(number)
            let request = RequestUse(
                at: at,
                requestID: "k-\(number)",
                route: "files",
                client: client,
                method: "GET",
                status: status,
                credential: "box",
                generation: 1,
                bytesReceived: 0,
                bytesSent: 0,
                duration: .milliseconds(3)
            )
            #expect(log.keep([request]) == 0)
        }
        await log.close()
        let answer = try await fixture.reader.who(question())
        #expect(
            answer.groups.map(\.firstRequestId) == ["k-1", "k-2"]
                && answer.groups.map(\.lastRequestId) == ["k-4", "k-2"]
        )
        #expect(answer.groups[0].lastAt == (now.startOfMinute + .seconds(4)).rfc3339)
        #expect(answer.total?.firstRequestId == "k-1" && answer.total?.lastRequestId == "k-4")
        let byStatus = try await fixture.reader.who(question(.status))
        #expect(byStatus.groups.map(\.lastRequestId) == ["k-4", "k-2"])
    }

    /// Counts of an earlier version are not taken for counts of nothing.
    @Test func aLogOfAnEarlierVersionTellsRefusalsApartFromNowOn() async throws {
        let log = try fixture.open()
        log.count(use("box", "ci", status: 401, requests: 2, minutesAgo: 5))
        await log.close()
        try fixture.tamper(
            AuditFixture.withoutViewsAndIndices
                + AuditSchema.refusalColumns.map { "ALTER TABLE token_use DROP COLUMN \($0);" }.joined()
        )
        #expect(try await fixture.reader.who(question(.status)).groups.map(\.name) == ["4xx"])
        let reopened = try fixture.open()
        reopened.count(use("box", "ci", status: 401, minutesAgo: 5))
        reopened.count(use("box", "ci", status: 401))
        await reopened.close()
        let answer = try await fixture.reader.who(question(.status))
        #expect(answer.groups.map { "\($0.name ?? "-") \($0.requests)" } == ["401 1", "4xx 3"])
        let known = try await DatabaseQueue(path: fixture.path).read {
            try Int?.fetchAll($0, sql: "SELECT status_401 FROM token_use ORDER BY minute")
        }
        #expect(known == [nil, 1], "a row that an earlier version has begun cannot be told apart")
    }

    @Test func countsThatSomebodyHasChangedDoNotTrap() async throws {
        let log = try fixture.open()
        log.count(use("box", "ci", status: 401, requests: 2))
        await log.close()
        try fixture.tamper("UPDATE token_use SET status_401 = \(Int64.max), status_403 = 5, requests = \(Int64.min)")
        _ = try await fixture.reader.who(question())
        let changes = try await fixture.reader.answers(
            to: ["box"],
            since: now + .seconds(-3600),
            within: .seconds(60)
        )
        #expect(changes.count == 1)
    }

    @Test func anAnswerThatTakesTooLongIsAnError() async throws {
        let log = try fixture.open()
        for minute in 0..<5000 { log.count(use("box", "ci", minutesAgo: Int64(minute))) }
        await log.close()
        await #expect(throws: AuditError.tookTooLong) { try await fixture.reader.who(question(), within: .zero) }
        try fixture.tamper("DROP INDEX \(AuditIndex.usesByCredential.name)")
        let unknown = AuditWho.Question(credential: "nobody")
        await #expect(throws: AuditError.tookTooLong) { try await fixture.reader.who(unknown, within: .zero) }
        #expect(try await fixture.reader.who(question(), within: .seconds(60)).total?.requests == 5000)
    }
}

@Suite("Answers to static credentials", .timeLimit(.minutes(1)))
struct AnswerChangesTests {
    private func changes(_ rows: [(minute: Int, name: String, statusClass: Int64, requests: Int, refusals: Int?)])
        -> [String]
    {
        var changes = AnswerChanges(of: ["key", "other"])
        for row in rows {
            let minute = "2026-03-01T09:0\(row.minute):00.000Z"
            changes.add(
                row.name,
                minute: minute,
                statusClass: row.statusClass,
                requests: row.requests,
                refusals: row.refusals
            )
        }
        return changes.finish().map { "\($0.credential) \($0.mark) \($0.at.rfc3339.dropFirst(14).prefix(2))" }
    }

    @Test func onlyChangesAreFound() {
        let found = changes([
            (1, "key", 2, 5, 0), (2, "key", 2, 5, 0), (3, "key", 4, 2, 2), (4, "key", 4, 9, 9), (5, "key", 2, 1, 0),
        ])
        #expect(found == ["key accepted 01", "key turnedAway 03", "key accepted 05"])
    }

    @Test func aMinuteInWhichAnyRequestIsLetInIsNoRejection() {
        #expect(changes([(1, "key", 4, 2, 2), (1, "key", 5, 1, 0), (2, "key", 4, 3, 2)]) == ["key accepted 01"])
    }

    @Test func whatSaysNothingOfTheCredentialIsLeftOut() {
        #expect(changes([(1, "token", 2, 5, 0), (1, "key", 0, 5, 0), (2, "key", 4, 5, nil)]) == [])
    }

    @Test func eachCredentialHasItsOwn() {
        let found = changes([(1, "key", 2, 1, 0), (1, "other", 4, 1, 1), (2, "other", 4, 1, 1), (3, "other", 3, 1, 0)])
        #expect(found == ["key accepted 01", "other turnedAway 01", "other accepted 03"])
    }
}
