import GatewayEvents
import GatewayHTTP
import Testing

@testable import GatewayApp
@testable import GatewayProxy
@testable import GatewayTokens

@Suite(.timeLimit(.minutes(1)))
struct AttentionTests {
    private func token(_ name: String, _ state: TokenStatus.State) -> TokenStatus {
        TokenStatus(credential: name, strategy: "box_ccg", subject: nil, state: state, generation: 3, isRenewable: true)
    }

    private func items(
        _ tokens: [TokenStatus] = [],
        _ expirations: [Expiration] = [],
        _ readiness: Readiness = Readiness(.ready)
    ) -> [Attention] {
        Attention.items(readiness: readiness, tokens: tokens, expirations: expirations)
    }

    private func expiration(_ kind: Expiration.Kind, _ name: String, in seconds: Int64, action: String) -> Expiration {
        let now = UnixTime(seconds: 1_800_000_000)
        return Expiration(kind, of: name, from: nil, to: now + .seconds(seconds), at: now, action: action)
    }

    @Test func whereNothingIsToDoThereIsNothing() {
        #expect(items([token("box", .valid), token("other", .acquiring)]) == [])
    }

    @Test func aStaticCredentialThatIsRejectedIsSentAllTheSame() throws {
        var token = token("openai", .rejected)
        token.isRenewable = false
        #expect(try #require(items([token]).first).waits)
        token.isStatic = true
        let item = try #require(items([token]).first)
        #expect(!item.waits && item.title == "openai: the upstream rejects the secret")
    }

    @Test func whatTheAuthoritySaidIsShown() throws {
        var token = token("campus", .loginRequired)
        token.failing = TokenStatus.Failing(since: "2026-11-25T12:00:00.000Z", reason: "Refused.", remedy: "Log in.")
        token.authorityError = AuthorityError(status: 400, code: "invalid_grant", description: "It has expired")
        let text = try #require(items([token]).first).text
        #expect(text.hasPrefix("Refused. The authorization server said: ") && text.hasSuffix(" Log in."))
        #expect(text.contains("It has expired"))
    }

    @Test(arguments: [
        ("the audit log cannot be written: disk full", "The audit log cannot be written", "disk full"),
        ("The clock is ahead. Set it: timedatectl", "The clock is ahead", "Set it: timedatectl"),
        ("the disk is full", "The disk is full", ""),
    ])
    func aReasonBecomesATitleAndTheRest(_ reason: String, _ title: String, _ text: String) throws {
        let item = try #require(items([], [], Readiness(.degraded, reasons: [reason])).first)
        #expect(item.title == title && item.text == text)
    }

    @Test func howManyProblemsAReloadHasIsSaidWithTheFirst() {
        let one = "g.yaml:3:1: error: unknown key \"a\"\n    3 | a: b\n"
        let two = one + "g.yaml:4:1: error: unknown key \"c\"\n    4 | c: \": error: \"\n"
        #expect(Reloader.firstProblem(in: one) == "g.yaml:3:1: error: unknown key \"a\"")
        #expect(Reloader.firstProblem(in: two) == "g.yaml:3:1: error: unknown key \"a\" (and 1 more)")
        let warned = "g.yaml:2:1: warning: a secret in plain text\n    2 | x: y\n"
        #expect(Reloader.firstProblem(in: warned + one) == "g.yaml:3:1: error: unknown key \"a\"")
        #expect(Reloader.firstProblem(in: warned + two) == "g.yaml:3:1: error: unknown key \"a\" (and 1 more)")
        #expect(Reloader.firstProblem(in: "the port is in use\n") == "the port is in use")
        #expect(Reloader.firstProblem(in: "") == "unknown")
    }

    @Test func theWorstStandsFirst() {
        var renewing = token("a", .valid)
        renewing.failing = TokenStatus.Failing(
            since: "2026-11-25T12:00:00.000Z",
            reason: "The authority cannot be reached.",
            nextTryAt: "2026-11-25T12:01:00.000Z",
            remedy: "Check the network."
        )
        var campus = token("campus", .loginRequired)
        campus.canLogIn = true
        campus.failing = TokenStatus.Failing(
            since: "2026-11-25T12:02:11.000Z",
            reason: "The authority refused the session token (400).",
            remedy: "Log in again.",
            command: "authgateway login campus",
            failedRequests: 318
        )
        let found = items(
            [renewing, campus],
            [expiration(.secret, "github", in: 12 * 86_400, action: "Get a new secret for github.")],
            Readiness(.degraded, reasons: ["campus: login required", "github: its secret expires in 12d", "x: y"])
        )
        #expect(
            found.map(\.title) == [
                "campus: a login is needed", "X", "a: the token is not renewed",
                "github: the secret expires in 12 days",
            ]
        )
        #expect(found.map(\.severity) == [.failing, .soon, .soon, .soon])
        #expect(found[0].text == "The authority refused the session token (400). Log in again.")
        #expect(found[0].command == "authgateway login campus")
        #expect(found[0].login == "campus")
        #expect(found[0].failedRequests == 318)
        #expect(found[0].nextTryAt == nil)
        #expect(found[2].nextTryAt == "2026-11-25T12:01:00.000Z")
    }

    @Test func aGatewayThatDoesNotServeSaysWhyFirst() {
        let reason = "the audit log cannot be written, so no new token is used: disk full"
        let found = items([], [], Readiness(.notReady, reasons: [reason]))
        #expect(found.map(\.severity) == [.failing])
        #expect(found.map(\.title) == ["The audit log cannot be written, so no new token is used"])
        #expect(found.map(\.text) == ["disk full"])
    }

    @Test func oneSubjectStandsForAllOfItsCredential() {
        let subjects = ["app[1]", "app[2]", "app[3]"].map { name in
            var status = token(name, .loginRequired)
            status.perSubjectCredential = "app"
            return status
        }
        #expect(items(subjects).map(\.title) == ["app[1]: a login is needed (and 2 more subjects)"])
    }

    @Test func theCommandOfAnEndIsTold() {
        let certificate = "Replace the certificate a.pem, then run: authgateway reload"
        let found = items(
            [],
            [
                expiration(.certificate, "routes.box.tls", in: 86_400, action: certificate),
                expiration(.login, "me", in: 60, action: "authgateway login me"),
                expiration(.login, "you", in: 90 * 86_400, action: "authgateway login you"),
                expiration(.secret, "old", in: 0, action: "Get a new one."),
            ]
        )
        #expect(found.map(\.command) == [nil, "authgateway reload", "authgateway login me"])
        #expect(found.map(\.title).first == "old: the secret has expired")
        #expect(found.map(\.text) == ["Get a new one.", certificate, ""])
    }

    @Test func theEndOfALoginIsNotSaidBesideItsCredential() {
        let found = items(
            [token("me", .loginRequired)],
            [expiration(.login, "me", in: 60, action: "authgateway login me")]
        )
        #expect(found.count == 1)
    }
}

@Suite(.timeLimit(.minutes(1)))
struct RouteConditionTests {
    private func route(_ health: UpstreamHealth? = nil, needs: String? = nil) -> RouteStatus {
        RouteStatus(
            name: "box",
            upstream: "https://api.box.com",
            path: "/box",
            hosts: [],
            credential: nil,
            strategy: "none",
            needs: needs,
            health: health
        )
    }

    @Test(
        arguments: [
            (nil, nil, .idle), (0, 0, .good), (0.005, nil, .good), (0.02, 0, .degraded), (0, 0.02, .degraded),
            (0.5, nil, .failing), (nil, 1, .failing),
        ] as [(Double?, Double?, RouteCondition)]
    )
    func theWorseOfBothCounts(_ health: Double?, _ share: Double?, _ condition: RouteCondition) {
        let upstream = health.map { UpstreamHealth(failureRate: $0, requests: 200) }
        let traffic = share.map { TrafficStatus(route: "box", errorShare: $0) }
        #expect(route(upstream).condition(traffic) == condition)
    }

    @Test(arguments: [(0.49, .good), (0.5, .degraded), (1, .degraded)] as [(Double, RouteCondition)])
    func aCredentialThatIsRejectedIsNotGood(_ share: Double, _ condition: RouteCondition) {
        let traffic = TrafficStatus(route: "box", errorShare: 0, rejectionShare: share)
        #expect(route(UpstreamHealth(failureRate: 0, requests: 9)).condition(traffic) == condition)
        var health = UpstreamHealth(failureRate: 0, requests: 9)
        health.rejectionRate = share
        #expect(route(health).condition(nil) == condition)
    }

    @Test func whatNeedsAPersonFails() { #expect(route(needs: "authgateway login me").condition(nil) == .failing) }

    @Test func ofARouteThatWasUsedAWhileAgoOnlyAFailureIsSaid() {
        let (earlier, later) = ("2026-11-25T12:00:00.000Z", "2026-11-25T12:00:01.000Z")
        #expect(route().condition(TrafficStatus(route: "box", requests: [1, 0, 0])) == .idle)
        #expect(route(UpstreamHealth(lastSuccessAt: earlier)).condition(nil) == .idle)
        #expect(route(UpstreamHealth(lastSuccessAt: later, lastFailureAt: earlier)).condition(nil) == .idle)
        #expect(route(UpstreamHealth(lastSuccessAt: earlier, lastFailureAt: later)).condition(nil) == .failing)
        #expect(route(UpstreamHealth(lastFailureAt: later)).condition(nil) == .failing)
        #expect(route(UpstreamHealth(unanswered: 3)).condition(nil) == .degraded)
    }

    @Test func aRouteWithoutATokenFails() {
        var token = TokenStatus(
            credential: "me",
            strategy: "box_ccg",
            subject: nil,
            state: .empty,
            generation: 0,
            isRenewable: true
        )
        #expect(route().condition(nil, token: token) == .idle)
        token.failing = TokenStatus.Failing(since: "2026-11-25T12:00:00.000Z", reason: "no answer", remedy: "Wait.")
        #expect(route().condition(nil, token: token) == .failing)
        token.state = .valid
        #expect(route().condition(nil, token: token) == .idle)
    }
}

@Suite(.timeLimit(.minutes(1)))
struct RouteSnippetsTests {
    private func texts(
        _ path: String,
        hosts: [String] = [],
        listeners: [String] = ["http://127.0.0.1:8080"],
        clients: Bool = false
    ) -> [String] {
        let route = RouteStatus(
            name: "box",
            upstream: "https://api.box.com/2.0",
            path: path,
            hosts: hosts,
            credential: nil,
            strategy: "none"
        )
        return RouteSnippets(route, listeners: listeners, asksForClients: clients).all.map(\.text)
    }

    @Test func aPathIsPartOfTheBase() {
        #expect(
            texts("/box") == [
                "curl http://127.0.0.1:8080/box/", "http://127.0.0.1:8080/box",
                "http_proxy=http://127.0.0.1:8080 curl http://api.box.com/2.0/",
            ]
        )
    }

    @Test func aClientTokenIsAskedFor() {
        #expect(
            texts("/box", clients: true).first
                == "printf 'Authorization: Bearer %s\\n' \"$(cat CLIENT_TOKEN_FILE)\" | "
                + "curl -H @- http://127.0.0.1:8080/box/",
            "the token is in no argument of a program"
        )
    }

    @Test func aHostIsNamed() {
        #expect(
            texts("/", hosts: ["box.localhost"]).prefix(2) == [
                "curl http://box.localhost:8080/", "http://box.localhost:8080",
            ]
        )
        #expect(texts("/", hosts: ["api.box.com"]).first == "curl -H 'Host: api.box.com' http://127.0.0.1:8080/")
    }

    @Test func aSocketIsNamed() {
        #expect(
            texts("/box", listeners: ["unix:/run/a b.sock"])
                == ["curl --unix-socket '/run/a b.sock' http://localhost/box/"]
        )
        #expect(
            texts("/box", listeners: ["unix:/a", "https://gw:8443"]) == [
                "curl https://gw:8443/box/", "https://gw:8443/box",
            ]
        )
    }
}
