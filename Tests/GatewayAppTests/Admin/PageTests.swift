import GatewayEvents
import GatewayHTTP
import Testing

@testable import GatewayApp
@testable import GatewayLocalAuthority
@testable import GatewayProxy
@testable import GatewayTokens

@Suite(.timeLimit(.minutes(1)))
struct PageTests {
    private let now = UnixTime(rfc3339: "2026-11-25T12:14:00Z") ?? UnixTime(seconds: 0)

    private func page(
        readiness: Readiness = Readiness(.ready),
        tokens: [TokenStatus] = [],
        routes: [RouteStatus] = [],
        traffic: [TrafficStatus] = [],
        hour: TrafficHour? = nil,
        timeline: CredentialTimeline = CredentialTimeline(),
        lists: ListQuery = ListQuery(),
        events: [AuditEntry] = [],
        query: EventQuery = EventQuery(),
        question: Question? = nil
    ) -> String {
        var recent = RecentEvents()
        recent.add(events.reversed())
        return StatusPage(
            overview: GatewayOverview(
                version: "0.1.0",
                startedAt: "2026-11-22T08:14:00.000Z",
                configurationDigest: "8a04c3",
                configurationLoadedAt: "2026-11-25T12:13:02.000Z",
                listeners: ["http://127.0.0.1:8080"],
                clients: ["ci"],
                proxy: ProxyOffer()
            ),
            readiness: readiness,
            routes: routes,
            traffic: Dictionary(uniqueKeysWithValues: traffic.map { ($0.route, $0) }),
            hour: hour ?? TrafficHour(at: now),
            tokens: tokens,
            expirations: [],
            timeline: timeline,
            recent: recent,
            query: query,
            lists: lists,
            events: events.filter(query.matches),
            question: question,
            now: now
        ).html.text
    }

    private var campus: TokenStatus {
        var token = TokenStatus(
            credential: "campus",
            strategy: "duke_session",
            subject: nil,
            state: .loginRequired,
            generation: 9,
            isRenewable: true
        )
        token.canLogIn = true
        token.failing = TokenStatus.Failing(
            since: "2026-11-25T12:02:11.000Z",
            reason: "The authorizer refused the session token (400).",
            remedy: "Log in again.",
            command: "authgateway login campus",
            failedRequests: 318
        )
        return token
    }

    private func route(_ name: String, credential: String? = nil) -> RouteStatus {
        RouteStatus(
            name: name,
            upstream: "https://\(name).example.com/api",
            path: "/\(name)",
            hosts: [],
            credential: credential,
            strategy: "bearer"
        )
    }

    @Test func theFirstLineIsTheState() {
        #expect(page().contains("<p class=\"pill good\" role=\"status\">Serving</p>"))
        #expect(page().contains("<title>Serving – AuthGateway</title>"))
        #expect(
            page(readiness: Readiness(.notReady, reasons: ["no disk"])).contains(
                "pill bad\" role=\"status\">Not serving"
            )
        )
        #expect(page(tokens: [campus]).contains("pill warn\" role=\"status\">Serving · 1 needs you"))
        #expect(page().contains("up 3 d 4 h"))
        #expect(page().contains("<code>8a04c3</code> loaded"))
        #expect(page().contains("audit chain not verified yet"))
    }

    @Test func whatNeedsAPersonIsAbsentWhenNothingDoes() {
        #expect(!page().contains("Needs you"))
        let needy = page(tokens: [campus])
        #expect(needy.contains("<h3>campus: a login is needed</h3>"))
        #expect(needy.contains("<strong>318 requests</strong> have failed."))
        #expect(needy.contains("The gateway does not retry automatically."))
        #expect(needy.contains("data-copy=\"authgateway login campus\""))
        #expect(needy.contains("href=\"/login?credential=campus\""))
    }

    @Test func aRouteShowsItsTrafficAndWhatToCopy() {
        var requests = Array(repeating: 4, count: 60)
        requests[3] = 8
        let traffic = TrafficStatus(
            route: "box",
            requestsPerSecond: 212.4,
            errorShare: 0.125,
            p50Milliseconds: 41.2,
            p99Milliseconds: 118,
            requests: requests,
            errors: requests.map { $0 == 8 ? 1 : 0 }
        )
        let html = page(routes: [route("box", credential: "github")], traffic: [traffic])
        #expect(html.contains("212/s"))
        #expect(html.contains("12.5 %"))
        #expect(html.contains("41 ms / 118 ms"))
        #expect(html.contains("some requests fail"))
        #expect(html.contains("class=\"errors\" d=\"M"))
        #expect(html.contains("data-copy=\"curl http://127.0.0.1:8080/box/\""))
        #expect(html.contains("data-copy=\"http_proxy=http://127.0.0.1:8080 curl http://box.example.com/api/\""))
        #expect(html.contains("<details class=\"entry\" id=\"c-github\">"), "a static credential has a row")
    }

    @Test func aKnownCodeLeadsToItsExplanation() {
        var token = campus
        token.authorityError = AuthorityError(status: 400, code: "invalid_client", description: nil)
        var failing = route("box")
        failing.health = UpstreamHealth(lastFailure: "upstream-unreachable", failureRate: 1, requests: 1)
        let html = page(tokens: [token], routes: [failing])
        #expect(html.contains("data-copy=\"authgateway explain-error invalid_client\""))
        #expect(html.contains("data-copy=\"authgateway explain-error upstream-unreachable\""))
        token.authorityError = AuthorityError(status: 400, code: "of_their_own", description: nil)
        #expect(!page(tokens: [token], routes: [route("box")]).contains("explain-error"))
    }

    @Test func nothingThatIsShownBecomesMarkup() {
        let evil = "\"><script>alert(1)</script><a href='x"
        var token = campus
        token.credential = evil
        token.failing?.reason = evil
        token.failing?.command = "authgateway login \(evil)"
        token.authorityError = AuthorityError(status: 400, code: evil, description: evil)
        var entry = AuditEntry(id: 1, at: evil, event: evil, credential: evil, client: evil, requestID: evil)
        entry.detail = ["reason": evil]
        var bad = route(evil, credential: evil)
        bad.health = UpstreamHealth(lastFailureAt: evil, lastFailure: evil, failureRate: 1, requests: 1)
        let html = page(
            readiness: Readiness(.degraded, reasons: [evil]),
            tokens: [token],
            routes: [bad],
            events: [entry],
            query: EventQuery(client: evil, route: evil, credential: evil),
            question: Question(text: evil, answer: .success(evil))
        )
        #expect(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"))
        #expect(html.components(of: "<script").count == 2, "only our own")
        #expect(!html.contains("<a href='x"))
        #expect(!LiveSection.row(of: entry, now: now).text.contains("<script"))
    }

    @Test func noStyleAndNoHandlerStandsInThePage() {
        let html = page(tokens: [campus], routes: [route("box")])
        #expect(!html.contains(" style=\""))
        #expect(!html.contains(" onclick"))
        #expect(!html.contains("//cdn"))
    }

    @Test func theFilterIsShownAndKept() {
        let html = page(routes: [route("box")], query: EventQuery(kind: .group(.failures), client: "ci", request: "r1"))
        #expect(
            html.contains(
                "data-kind=\"failures\" href=\"/?kind=failures&amp;client=ci&amp;request=r1#live\" aria-current=\"true\""
            )
        )
        #expect(html.contains("<option value=\"ci\" selected>"))
        #expect(html.contains("request: r1 ×"))
    }

    @Test func anEventLeadsToTheExplanationOfItsRequest() {
        let entry = AuditEntry(id: 7, at: "2026-11-25T12:00:00.250Z", event: "rejected", requestID: "r9f2-117")
        let row = LiveSection.row(of: entry, now: now).text
        #expect(row.contains("<a href=\"/explain?q=r9f2-117\" data-explain=\"r9f2-117\">"))
        #expect(row.contains(">12:00:00.250</time>"))
        #expect(LiveSection.row(of: entry, now: now + .seconds(86_400)).text.contains(">25 Nov 12:00 UTC</time>"))
    }

    @Test func aStripShowsLivesFailuresAndLocks() {
        var timeline = CredentialTimeline()
        func add(_ mark: CredentialTimeline.Mark, _ hours: Int64) {
            timeline.add(CredentialTimeline.Event(mark, of: "campus", at: now + .seconds(-3600 * hours)))
        }
        add(.loggedIn, 18)
        add(.renewed, 12)
        add(.ended, 6)
        add(.refused, 6)
        let html = page(tokens: [campus], timeline: timeline)
        for path in [
            "<path class=\"odd\" d=\"M250 6H499V20H250Z\"/>", "<path class=\"even\" d=\"M500 6H749V20H500Z\"/>",
            "<path class=\"missing\" d=\"M750 6H999V20H750Z\"/>", "<path class=\"mark accent\" d=\"M250 1V25\"/>",
            "<path class=\"mark bad\" d=\"M750 1V25\"/>",
            "Last 24 hours: renewed 1×, logged in 1×, failed 1×, ended 1×",
        ] {
            #expect(html.contains(path), "\(path)")
        }
        add(.locked, 2)
        #expect(page(tokens: [campus], timeline: timeline).contains("<path class=\"locked\" d=\"M916.7 6"))
        let week = page(tokens: [campus], timeline: timeline, lists: ListQuery { $0 == "span" ? "7d" : nil })
        #expect(week.contains("Last 7 days: ") && week.contains("href=\"/#credentials\""))
    }

    @Test func aWeekOfShortTokensIsNoLongPage() {
        var timeline = CredentialTimeline()
        for minute in stride(from: Int64(-7 * 1440), to: 0, by: 10) {
            timeline.add(CredentialTimeline.Event(.renewed, of: "campus", at: now + .seconds(minute * 60)))
        }
        let html = page(tokens: [campus], timeline: timeline, lists: ListQuery { $0 == "span" ? "7d" : nil })
        #expect(html.contains("Last 7 days: renewed 1008×"))
        #expect((200...600).contains(html.components(of: "V").count))
    }

    @Test func aRowSaysWhatComesNext() {
        var token = campus
        (token.state, token.canLogIn) = (.valid, false)
        token.failing?.nextTryAt = "2026-11-25T12:18:00.000Z"
        token.failing?.needsPerson = false
        #expect(page(tokens: [token]).contains("retries in <time datetime=\"2026-11-25T12:18:00.000Z\""))
        token.failing?.nextTryAt = nil
        token.failing?.notBefore = "2026-11-25T12:18:00.000Z"
        #expect(page(tokens: [token]).contains("retries with the next request, not before <time"))
        #expect(
            page(tokens: [campus]).contains("<span class=\"next soft\"><code>authgateway login campus</code></span>")
        )
        token.failing = nil
        token.renewsAt = "2026-11-25T12:50:00.000Z"
        #expect(page(tokens: [token]).contains("renews in <time datetime=\"2026-11-25T12:50:00.000Z\""))
        (token.state, token.lockedAt) = (.locked, "2026-11-25T11:00:00.000Z")
        #expect(page(tokens: [token]).contains("since <time datetime=\"2026-11-25T11:00:00.000Z\""))
    }

    @Test func whatIsTriedAgainByItselfNeedsNobody() {
        var token = campus
        token.state = .valid
        token.failing?.needsPerson = false
        let html = page(readiness: Readiness(.degraded, reasons: ["campus: x"]), tokens: [token])
        #expect(html.contains("role=\"status\">Serving · renewals fail</p>"))
        #expect(html.contains("Retried automatically") && !html.contains("<h2>Needs you</h2>"))
        let filtered = page(tokens: [token], lists: ListQuery { $0 == "show" ? "needs" : nil })
        #expect(filtered.contains("No credentials to show.") && !filtered.contains("id=\"c-campus\""))
    }

    @Test func theHourIsDrawnForAllRequestsARouteOrAClient() {
        let counts = Array(repeating: 120, count: 60)
        let errors = Array(repeating: 0, count: 59) + [60]
        let traffic = TrafficStatus(route: "box", requests: counts, errors: errors, rejections: errors)
        let client = ClientTraffic(TrafficStatus(route: "", requests: errors), client: "ci", isRest: nil)
        let latencies = LatencyStatus(upstreamP50: [40, nil], upstreamP99: [240, 90], gatewayP99: [0.4, nil])
        let hour = TrafficHour(clients: [client], latencies: latencies, at: now)
        func shown(_ choice: String?) -> String {
            let lists = ListQuery { $0 == "traffic" ? choice?[...] : nil }
            return page(routes: [route("box"), route("b")], traffic: [traffic], hour: hour, lists: lists)
        }
        #expect(shown(nil).contains("All requests, last hour: 7200 requests, 60 errors, 60 rejected by the upstream"))
        #expect(shown("route:box").contains("Route box, last hour: 7200 requests"))
        #expect(shown("client:ci").contains("Client ci, last hour: 60 requests, 0 errors"))
        #expect(shown("client:ci").contains("<option value=\"client:ci\" selected>"))
        #expect(shown("route:none").contains("All requests, last hour"))
        #expect(shown(nil).contains("<span>2/s</span>") && shown(nil).contains("<span>300 ms</span>"))
        #expect(shown(nil).contains("upstream p50 40 ms, p99 90 ms · gateway p50 –, p99 0.4 ms"))
        #expect(shown(nil).contains("<path class=\"bar bad\"") && shown(nil).contains("<path class=\"curve good\""))
    }

    @Test(
        "an axis ends at a round number",
        arguments: [(0, "2/min"), (7, "8/min"), (59, "60/min"), (61, "2/s"), (3600, "60/s"), (660_000, "20000/s")]
    )
    func scales(_ peak: Int, _ label: String) {
        let scale = ChartScale(requestsPerMinute: peak)
        #expect(scale.labels.first == label && scale.limit >= Double(peak))
    }

    @Test func mergedRowsStandInTheOrderOfTime() {
        let late = AuditEntry(id: 9, at: "2026-11-25T12:00:00.000Z", event: "request_failed")
        let early = AuditEntry(id: 8, at: "2026-11-25T12:00:40.000Z", event: "renewed")
        #expect(AuditEntry.newestFirst([late, early]).map(\.id) == [8, 9])
    }

    @Test(arguments: [
        (212.4, "212/s"), (3.14, "3.1/s"), (0, "0/s"), (0.02, "0.02/s"), (0.0001, "0.01/s"), (9.96, "10.0/s"),
    ])
    func rates(_ rate: Double, _ text: String) { #expect(PageText.rate(rate) == text) }

    /// It said "expired left" in the last second.
    @Test(arguments: [
        (-5000, "expired"), (0, "expired"), (1, "1 s left"), (999, "1 s left"), (1000, "1 s left"),
        (61_500, "1 min 2 s left"),
    ])
    func countdowns(_ milliseconds: Int, _ text: String) {
        let now = UnixTime(seconds: 1_772_357_400)
        let end = (now + .milliseconds(milliseconds)).rfc3339
        let html = PageText.countdown(to: end, now: now, unit: " left", over: "expired")
        #expect(html.text.contains(">\(text)</time>"), "\(html.text)")
        #expect(html.text.contains(#"data-until="expired" data-unit=" left""#))
        let plain = PageText.countdown(to: end, now: now, over: "a moment")
        #expect(!plain.text.contains("data-unit") && !plain.text.contains("left"))
    }

    @Test func numbersThatAreNoneTrapNothing() {
        #expect(PageText.decimal(.nan, 1) == "–")
        #expect(PageText.decimal(.infinity, 1) == "–")
        #expect(PageText.share(1) == "100 %")
        #expect(PageText.share(0.9994) == "99.9 %")
        #expect(PageText.age(-5) == "0 s")
    }
}

extension String {
    fileprivate func components(of separator: String) -> [Substring] {
        split(separator: separator, omittingEmptySubsequences: false)
    }
}
