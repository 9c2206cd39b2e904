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

    @Test func requestsWithoutATokenStandOnThePageOnlyWhereTheyAreAskedFor() throws {
        var withheld = entry
        withheld.event = "withheld"
        withheld.isFailed = true
        for (parameters, isShown) in [
            ([:], false), (["kind": "failures"], false), (["route": "box"], false), (["kind": "withheld"], true),
            (["credential": "box"], true), (["request": "r9f2-117", "kind": "failures"], true),
        ] as [([String: String], Bool)] {
            var filter = try query(parameters)
            #expect(filter.matches(withheld), "elsewhere")
            filter.mergesWithheld = true
            #expect(filter.matches(withheld) == isShown, "\(parameters)")
            #expect(filter.matches(entry) == (parameters["kind"] == nil), "\(parameters)")
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
        #expect(entry.note == "403 route-forbidden · GET /box/{id} · 4 requests")
        entry = AuditEntry(
            id: 8,
            at: "",
            event: "renewal_failed",
            isFailed: true,
            httpStatus: 400,
            errorCode: "invalid_grant",
            detail: [
                "authority_code": "invalid_grant", "authority_description": "It is spent.", "authority_format": "oauth",
                "clock_skew_seconds": "-7", "recorded_late": "true", "parent_generation": "3",
            ]
        )
        #expect(
            entry.note
                == "400 invalid_grant · “It is spent.” · clock 7 s ahead of the authorization server · "
                + "parent generation 3 · recorded late"
        )
        entry = AuditEntry(id: 9, at: "", event: "renewed", generation: 0, httpStatus: 200, detail: ["peer": "::1"])
        #expect(entry.note == "")
        entry.detail = ["requests": "a b c d"]
        #expect(entry.note == "IDs a b c d")
        entry.detail = ["requests": "a b c d e"]
        #expect(entry.note == "IDs a b c and 2 more")
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

    private func entry(
        _ event: TokenEvent.Name,
        _ minutes: Int64,
        of credential: String? = "box",
        expires: Int64? = nil
    ) -> AuditEntry {
        AuditEntry(
            id: 1,
            at: (now + .seconds(minutes * 60)).rfc3339,
            event: event.rawValue,
            credential: credential,
            expiresAt: expires.map { (now + .seconds($0 * 60)).rfc3339 }
        )
    }

    private func timeline(_ entries: [AuditEntry]) -> CredentialTimeline {
        entries.reduce(into: CredentialTimeline()) { $0.add($1) }
    }

    /// `odd -60 -30`: the spans of the last day, in minutes before now.
    private func spans(_ timeline: CredentialTimeline, of credential: String = "box") -> [String] {
        let strip = timeline.strip(of: credential, from: now + .seconds(-86_400), to: now)
        return strip.spans.map { span in
            let (from, to) = ((span.from - now).wholeMilliseconds / 60_000, (span.to - now).wholeMilliseconds / 60_000)
            return "\(span.kind) \(from) \(to)"
        }
    }

    @Test func livesFollowEachOther() {
        let found = timeline([
            entry(.acquired, -180), entry(.injected, -170), entry(.renewed, -120), entry(.renewed, -60, of: nil),
            entry(.renewed, -30),
        ])
        #expect(spans(found) == ["odd -180 -120", "even -120 -30", "odd -30 0"])
        #expect(spans(found, of: "other") == [])
    }

    @Test func theOrderInWhichTheyAreAddedDoesNotMatter() {
        let entries = [entry(.acquired, -180), entry(.renewed, -120), entry(.renewed, -30), entry(.locked, -10)]
        #expect(spans(timeline(entries.reversed())) == spans(timeline(entries)))
        #expect(spans(timeline(entries + entries)) == spans(timeline(entries)), "a row that comes twice counts once")
    }

    @Test func aTokenThatExpiresUnusedIsNoFailure() {
        #expect(spans(timeline([entry(.acquired, -180, expires: -120)])) == ["odd -180 -120"])
        #expect(spans(timeline([entry(.acquired, -180), entry(.expired, -90)])) == ["odd -180 -90"])
    }

    @Test func aTokenIsMissingOnceItsRenewalFails() {
        let failed = [entry(.acquired, -180, expires: -120), entry(.renewalFailed, -130)]
        #expect(spans(timeline(failed)) == ["odd -180 -120", "missing -120 0"])
        let renewed = failed + [entry(.acquired, -60)]
        #expect(spans(timeline(renewed)) == ["odd -180 -120", "missing -120 -60", "even -60 0"])
        let first = [entry(.acquisitionFailed, -50), entry(.acquisitionFailed, -20)]
        #expect(spans(timeline(first)) == ["missing -50 0"])
    }

    @Test func aRejectedTokenIsDeadOnceItsRenewalFails() {
        let rejected = [entry(.acquired, -180), entry(.rejected, -90)]
        #expect(spans(timeline(rejected)) == ["odd -180 0"], "a path may reject every token")
        #expect(
            spans(timeline(rejected + [entry(.loginRequired, -80)])) == ["odd -180 -80", "missing -80 0"]
        )
    }

    @Test func aLockLiesAboveLives() {
        var found = timeline([entry(.acquired, -180), entry(.locked, -120), entry(.renewed, -100)])
        #expect(spans(found) == ["odd -180 -120", "locked -120 0"])
        #expect(found.lockedAt("box") == now + .seconds(-7200))
        found.add(entry(.unlocked, -60))
        #expect(spans(found) == ["odd -180 -120", "locked -120 -60", "even -60 0"])
        #expect(found.lockedAt("box") == nil && found.lockedAt("other") == nil)
    }

    @Test func aRestartDoesNotEndALife() {
        let token = entry(.acquired, -180, expires: 60)
        #expect(spans(timeline([token, entry(.loaded, -60, expires: 60)])) == ["odd -180 0"])
        #expect(spans(timeline([entry(.loaded, -60, expires: 60)])) == ["odd -60 0"])
    }

    @Test func staticCredentialsAreAcceptedOrRejected() {
        var found = CredentialTimeline()
        for minute in stride(from: Int64(-180), to: -60, by: 1) {
            found.add(useOf: "key", isAccepted: true, at: now + .seconds(minute * 60))
        }
        for minute in stride(from: Int64(-60), to: 0, by: 1) {
            found.add(useOf: "key", isAccepted: false, at: now + .seconds(minute * 60))
        }
        #expect(spans(found, of: "key") == ["odd -180 -60", "missing -60 0"])
        let strip = found.strip(of: "key", from: now + .seconds(-86_400), to: now)
        #expect(strip.points.map(\.mark) == [.accepted, .turnedAway], "only changes are kept")
    }

    @Test func aStaticCredentialThatIsAcceptedAfterAStartToo() {
        var found = CredentialTimeline()
        found.add(useOf: "key", isAccepted: true, at: now + .seconds(-600))
        // Of the log, which is read later.
        found.add(CredentialTimeline.Event(.accepted, of: "key", at: now + .seconds(-7200)))
        #expect(spans(found, of: "key") == ["odd -120 0"])
    }

    @Test func eventsThatFollowEachOtherCloselyAreOne() {
        let found = timeline((0..<10).map { entry(.renewalFailed, -60 + $0 / 3) })
        let strip = found.strip(of: "box", from: now + .seconds(-86_400), to: now)
        #expect(strip.points.count == 1 && strip.points.first?.count ?? 0 >= 4)
    }

    @Test func theirNumberIsBounded() {
        var found = CredentialTimeline()
        for minute in stride(from: Int64(0), to: 30 * 1440, by: 6) { found.add(entry(.renewed, minute)) }
        let end = now + .seconds(30 * 86_400)
        let strip = found.strip(of: "box", from: now, to: end)
        #expect((700...CredentialTimeline.entryLimit).contains(strip.points.count))
        #expect(strip.points.last.map { end - $0.at < .seconds(600) } == true, "the oldest ones go")
        for second in 0..<2000 {
            let time = now + .seconds(Int64(second) * 5)
            found.add(useOf: "odd", isAccepted: second.isMultiple(of: 2), at: time)
        }
        #expect(found.strip(of: "odd", from: now, to: end).points.count < 50)
        for number in 0...CredentialTimeline.credentialLimit {
            found.add(entry(.renewed, 40 * 1440, of: "app[\(number)]"))
        }
        #expect(spans(found, of: "odd") == [], "the one that was silent longest went")
    }
}
