import GatewayHTTP
import Testing

@testable import GatewayEvents

@Suite(.timeLimit(.minutes(1)))
struct EventQueryTests {
    private let entry = AuditEntry(
        id: 7,
        at: "2026-11-25T12:00:00.000Z",
        event: "renewed",
        credential: "box[user:42]",
        generation: 3,
        route: "box",
        client: "ci",
        requestID: "r9f2-117"
    )

    private func query(_ parameters: [String: String]) throws(GatewayProblem) -> EventQuery {
        try EventQuery { parameters[$0] }
    }

    @Test(arguments: [
        [:], ["kind": "renewals"], ["kind": "renewed"], ["client": "ci"], ["route": "box"], ["request": "r9f2-117"],
        ["credential": "box"], ["credential": "box[user:42]"], ["kind": "", "client": ""],
        ["kind": "renewals", "client": "ci", "route": "box"],
    ])
    func whatMatches(_ parameters: [String: String]) throws {
        #expect(try query(parameters).matches(entry))
    }

    @Test(arguments: [
        ["kind": "failures"], ["kind": "logins"], ["kind": "configuration"], ["kind": "acquired"], ["client": "c"],
        ["route": "box2"], ["request": "r9f2-11"], ["credential": "bo"], ["kind": "renewals", "client": "laptop"],
    ])
    func whatDoesNot(_ parameters: [String: String]) throws {
        #expect(try !query(parameters).matches(entry))
    }

    @Test func everyEventThatFailedIsAFailure() throws {
        var failed = entry
        failed.isFailed = true
        for name in TokenEvent.Name.allCases {
            failed.event = name.rawValue
            #expect(try query(["kind": "failures"]).matches(failed))
        }
    }

    @Test func aKindThatIsNoneIsAnsweredWithTheOneThatWasMeant() {
        #expect(throws: GatewayProblem.self) { try query(["kind": "no-such"]) }
        do throws(GatewayProblem) {
            _ = try query(["kind": "renewal"])
            Issue.record("accepted")
        } catch {
            #expect(error.kind == .requestRefused)
            #expect(error.detail.contains("did you mean \"renew"))
        }
    }

    @Test func theNoteSaysWhatHappened() {
        var entry = entry
        entry.credential = "box"
        entry.durationMilliseconds = 84
        #expect(entry.note == "generation 3 · in 84 ms · route box")
        entry = AuditEntry(
            id: 8,
            at: "",
            event: "client_denied",
            route: "box",
            isFailed: true,
            httpStatus: 403,
            errorCode: "route-forbidden",
            detail: ["reason": "route-forbidden", "method": "GET", "path": "/box/{id}", "count": "4"]
        )
        #expect(entry.note == "403 route-forbidden · GET /box/{id} · count 4")
        entry = AuditEntry(id: 9, at: "", event: "renewed", generation: 0, httpStatus: 200, detail: ["peer": "::1"])
        #expect(entry.note == "")
    }
}

@Suite(.timeLimit(.minutes(1)))
struct RecentEventsTests {
    private func entries(_ ids: ClosedRange<Int64>, client: String? = nil) -> [AuditEntry] {
        ids.map { AuditEntry(id: $0, at: "", event: "renewed", client: client) }
    }

    @Test func theNewestStandFirst() {
        var recent = RecentEvents()
        recent.add(entries(5...9))
        #expect(recent.page(EventQuery()).events.map(\.id) == [9, 8, 7, 6, 5])
        #expect(recent.page(EventQuery(), since: 7).events.map(\.id) == [9, 8])
        #expect(recent.page(EventQuery(), limit: 2).events.map(\.id) == [9, 8])
    }

    @Test func completeIsWhatLacksNothing() {
        var recent = RecentEvents()
        #expect(!recent.page(EventQuery(), since: 3).isComplete)
        recent.add(entries(5...9))
        #expect(!recent.page(EventQuery()).isComplete)
        #expect(!recent.page(EventQuery(), since: 3).isComplete)
        #expect(recent.page(EventQuery(), since: 4).isComplete)
        #expect(!recent.page(EventQuery(), since: 4, limit: 3).isComplete)
        recent.begin(with: entries(1...6), isWhole: true)
        #expect(recent.page(EventQuery()).isComplete)
        #expect(recent.page(EventQuery()).events.map(\.id) == Array((1...9).reversed()))
    }

    @Test func rowsThatAreThereAreNotAddedAgain() {
        var recent = RecentEvents()
        recent.add(entries(5...9))
        recent.add(entries(8...10))
        #expect(recent.page(EventQuery()).events.map(\.id) == [10, 9, 8, 7, 6, 5])
    }

    @Test func aLogThatBeginsAnewReplacesTheOldOne() {
        var recent = RecentEvents()
        recent.add(entries(5...9))
        recent.add(entries(1...2))
        #expect(recent.page(EventQuery()).events.map(\.id) == [2, 1])
    }

    @Test func itHoldsSoManyAndNoMore() {
        var recent = RecentEvents()
        recent.begin(with: [], isWhole: true)
        for id in 1...5000 { recent.add(entries(Int64(id)...Int64(id))) }
        let page = recent.page(EventQuery(), limit: .max)
        #expect(page.events.count >= RecentEvents.capacity)
        #expect(page.events.count <= RecentEvents.capacity * 5 / 4)
        #expect(!page.isComplete)
        #expect(!recent.entries(after: 1, matching: EventQuery()).isWhole)
    }

    @Test func theNumberOfEventsOnAPageIsLimited() {
        var recent = RecentEvents()
        recent.begin(with: [], isWhole: true)
        recent.add(entries(1...Int64(RecentEvents.pageLimit)))
        let whole = recent.page(EventQuery())
        #expect(whole.events.count == RecentEvents.pageLimit && whole.isComplete)
        recent.add(entries(Int64(RecentEvents.pageLimit + 1)...Int64(RecentEvents.pageLimit + 1)))
        let cut = recent.page(EventQuery())
        #expect(cut.events.count == RecentEvents.pageLimit && !cut.isComplete)
    }

    @Test func oldRowsAreDroppedOnceACapacityIsExceededByAQuarter() {
        let most = Int64(RecentEvents.capacity + RecentEvents.capacity / 4)
        var recent = RecentEvents()
        recent.begin(with: [], isWhole: true)
        recent.add(entries(1...most))
        #expect(recent.page(EventQuery(), limit: .max).events.count == Int(most))
        recent.add(entries(most + 1...most + 1))
        let page = recent.page(EventQuery(), limit: .max)
        #expect(page.events.count == RecentEvents.capacity && page.events.first?.id == most + 1)
        #expect(!page.isComplete)
    }

    @Test func aStreamGoesOnBehindARow() {
        var recent = RecentEvents()
        recent.add(entries(5...7, client: "ci"))
        recent.add(entries(8...9))
        let (found, isWhole) = recent.entries(after: 5, matching: EventQuery(client: "ci"))
        #expect(found.map(\.id) == [6, 7])
        #expect(isWhole)
    }
}

@Suite(.timeLimit(.minutes(1)))
struct CredentialTimelineTests {
    private let now = UnixTime(rfc3339: "2026-11-25T12:10:00Z") ?? UnixTime(milliseconds: 0)

    private func entry(_ event: TokenEvent.Name, _ at: UnixTime, of credential: String? = "box") -> AuditEntry {
        AuditEntry(id: 1, at: at.rfc3339, event: event.rawValue, credential: credential)
    }

    @Test func marksOfOneQuarterStandTogether() {
        var timeline = CredentialTimeline()
        timeline.add(entry(.renewalFailed, now))
        timeline.add(entry(.rejected, now))
        timeline.add(entry(.renewed, now + .seconds(-3600)))
        timeline.add(entry(.injected, now))
        timeline.add(entry(.renewed, now, of: nil))
        let points = timeline.points(of: "box", at: now)
        #expect(points.map(\.marks) == [[.renewed], [.rejected, .refused]])
        #expect(points.last?.at == "2026-11-25T12:00:00.000Z")
        #expect(timeline.points(of: "other", at: now) == [])
    }

    @Test func aDayLaterTheyAreGone() {
        var timeline = CredentialTimeline()
        timeline.add(entry(.acquired, now))
        #expect(timeline.points(of: "box", at: now + .seconds(23 * 3600)).count == 1)
        #expect(timeline.points(of: "box", at: now + .seconds(24 * 3600 + 900)) == [])
    }

    @Test func theirNumberIsBounded() {
        var timeline = CredentialTimeline()
        for second in stride(from: Int64(0), to: 10 * 86_400, by: 300) {
            timeline.add(entry(.renewed, now + .seconds(second)))
        }
        #expect(timeline.points(of: "box", at: now + .seconds(10 * 86_400)).count <= CredentialTimeline.slots)
        for number in 0...CredentialTimeline.credentialLimit {
            timeline.add(entry(.renewed, now + .seconds(20 * 86_400), of: "app[\(number)]"))
        }
        #expect(
            timeline.points(of: "box", at: now + .seconds(10 * 86_400)) == [],
            "the one that was silent longest went"
        )
    }
}
