import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("What a client is told of its exchange", .timeLimit(.minutes(5)))
struct ExchangeProblemsTests {
    @Test(
        arguments: [
            (nil, 0, false), (nil, .max, false), (0, 0, false), (0, 1, true), (10, 9, false), (10, 10, false),
            (10, 11, true), (10, .max, true), (.max, .max, false),
        ] as [(Int?, Int, Bool)]
    )
    func contentHasALimit(_ maximum: Int?, _ length: Int, _ isRefused: Bool) {
        var limits = Limits()
        limits.requestBodyBytes = maximum
        let problem = limits.refusal(ofContent: length)
        #expect((problem != nil) == isRefused)
        #expect(problem.map { $0.kind.status } == (isRefused ? 413 : nil))
    }

    @Test(
        "a wait for a token names its key, and the call that outlasts it",
        arguments: [
            (.seconds(5), "No token came within 5s (limits.credential_timeout); the call goes on for up to 15 s."),
            (.seconds(15), "No token came within 15s (limits.credential_timeout)."),
            (.seconds(20), "No token came within 20s (limits.credential_timeout)."),
        ] as [(Duration, String)]
    )
    func aWaitForATokenNamesItsKey(_ limit: Duration, _ detail: String) {
        var limits = Limits()
        limits.credentialTimeout = limit
        #expect(CredentialWait.timedOut(under: limits).detail == detail)
    }

    @Test(arguments: [(1000, "1000"), (1 << 10, "1KiB"), (3 << 20, "3MiB"), (0, "0")])
    func theLimitIsNamedAsItIsWritten(_ maximum: Int, _ text: String) {
        var limits = Limits()
        limits.requestBodyBytes = maximum
        let detail = "The request was refused: body too long (limits.request_body_bytes: \(text))."
        #expect(limits.refusal(ofContent: maximum + 1) == GatewayProblem(.contentTooLarge, detail))
    }

    @Test func theOtherLimitsSayNothingOfIt() {
        var limits = Limits()
        limits.replayBodyBytes = 1
        limits.headerBytes = 1
        #expect(limits.refusal(ofContent: 1 << 40) == nil)
    }

    private static let stalls: [(Stall, RoutePlan.Timeouts, GatewayProblem)] = [
        (
            .requestStopped, .init(),
            GatewayProblem(.requestTimeout, "The client stopped sending the request body.")
        ),
        (
            .clientStoppedReading, .init(),
            GatewayProblem(.requestTimeout, "The client stopped reading the response.", hopError: .responseNotTaken)
        ),
        (
            .upstreamStoppedReading, .init(),
            GatewayProblem(
                .upstreamTimeout,
                "The upstream stopped reading the request body.",
                hopError: .requestNotTaken
            )
        ),
        (
            .upstreamSilent, .init(idle: .seconds(5)),
            silent(
                "The upstream did not answer within 1m (limits.response_timeout; a route can set timeouts.response)."
            )
        ),
        (
            .upstreamSilent, .init(response: .seconds(90)),
            silent("The upstream did not answer within 90s (timeouts.response of the route).")
        ),
        (
            .responseStopped, .init(response: .seconds(90)),
            silent(
                "The upstream sent nothing more of its response for 1m (limits.response_timeout; a route can set timeouts.idle)."
            )
        ),
        (
            .responseStopped, .init(idle: .milliseconds(250)),
            silent("The upstream sent nothing more of its response for 250ms (timeouts.idle of the route).")
        ),
        (
            .tunnelSilent, .init(response: .seconds(90), idle: .seconds(600)),
            GatewayProblem(
                .upstreamTimeout,
                "Neither end of the tunnel sent anything for 10m (timeouts.idle of the route).",
                hopError: .tunnelTimeout
            )
        ),
    ]

    private static func silent(_ detail: String) -> GatewayProblem {
        GatewayProblem(.upstreamTimeout, detail, hopError: .responseTimeout)
    }

    @Test(arguments: stalls)
    func whoeverHoldsUpATransferIsNamed(_ stall: Stall, _ timeouts: RoutePlan.Timeouts, _ problem: GatewayProblem) {
        #expect(stall.problem(timeouts, Limits()) == problem)
    }

    @Test func theClientIsBlamedForItselfOnly() {
        #expect(Stall.requestStopped.problem(.init(), Limits()).kind.status == 408)
        #expect(Stall.clientStoppedReading.problem(.init(), Limits()).kind.status == 408)
        #expect(Stall.upstreamStoppedReading.problem(.init(), Limits()).kind.status == 504)
        #expect(Stall.upstreamSilent.problem(.init(), Limits()).kind.status == 504)
        #expect(Stall.responseStopped.problem(.init(), Limits()).kind.status == 504)
    }

    private static func problem(_ reason: ExchangeProblem, credential: String? = "box") -> GatewayProblem? {
        reason.problem(upstream: "https://api.example", credential: credential, timeouts: .init(), limits: Limits())
    }

    @Test func theMachinesReasonsAreProblems() {
        #expect(Self.problem(.reported) == nil)
        let withdrawn = Self.problem(.withdrawn)
        #expect(withdrawn?.kind == .locked)
        #expect(withdrawn?.detail == "box was withdrawn while this request was in progress.")
        #expect(withdrawn?.retryAfter == .seconds(1))
        #expect(Self.problem(.withdrawn, credential: nil)?.detail.hasPrefix("The credential was withdrawn") == true)
        let excluded = Self.problem(.excluded)
        #expect(excluded?.kind == .draining)
        #expect(excluded?.kind.status == 503)
        #expect(excluded?.kind.title.contains("its configuration has changed") == true)
        #expect(excluded?.retryAfter == .seconds(1))
        #expect(excluded?.detail.contains("reload") == true)
        let reset = Self.problem(.connectionReset)
        #expect(reset?.kind == .draining && reset?.retryAfter == .seconds(1))
        #expect(
            reset?.detail.hasPrefix("The gateway reset its connection to https://api.example: another request") == true
        )
        let lost = Self.problem(.upstreamClosedEarly)
        #expect(lost?.detail == "https://api.example closed the connection early.")
        #expect(lost?.hopError == .connectionTerminated)
        let alert = TLSAlert(in: "OPENSSL_internal:TLSV1_ALERT_UNKNOWN_CA at x:1")
        let refused = alert.flatMap { Self.problem(.upstreamAlerted($0)) }
        #expect(
            refused?.detail.hasPrefix("https://api.example refused the TLS connection with the alert unknown_ca")
                == true
        )
        #expect(refused?.hopError == .handshakeFailed)
        #expect(Self.problem(.protocolNotOffered)?.kind == .upgradeFailed)
        #expect(
            Self.problem(.stalled(.upstreamSilent))?.detail.hasPrefix("The upstream did not answer within 1m (") == true
        )
    }

    /// Whatever the upstream had said before.
    @Test(arguments: [nil, HTTP2Farewell(goAway: .noError)])
    func aConnectionThatTheGatewayResetIsNotTheUpstreamsFault(_ farewell: HTTP2Farewell?) {
        var loss = ConnectionLoss(hasAnswered: false, isUnprocessed: false, farewell: farewell)
        #expect(loss.problem != .connectionReset)
        loss.isByGateway = true
        #expect(loss.problem == .connectionReset)
    }

    @Test(
        "what an HTTP/2 upstream said at its end is told",
        arguments: [
            (
                HTTP2Farewell(goAway: .noError), true,
                " closed the connection (GOAWAY, NO_ERROR) before it read the request; it may be restarting."
                    + " The request can be sent again."
            ),
            (
                HTTP2Farewell(goAway: .enhanceYourCalm, saying: Array("too many pings".utf8)), true,
                " closed the connection (GOAWAY, ENHANCE_YOUR_CALM: \"too many pings\") before it read the request."
                    + " The request can be sent again."
            ),
            (
                HTTP2Farewell(goAway: .internalError, saying: Array("a\n\"b\"".utf8)), false,
                " closed the connection early (GOAWAY, INTERNAL_ERROR: \"a\\u{a}'b'\")."
            ),
            (
                HTTP2Farewell(
                    goAway: .init(rawValue: 99),
                    saying: Array("key \(String(repeating: "x", count: 40))".utf8)
                ),
                false, " closed the connection early (GOAWAY, error 99: \"key …\")."
            ),
            (
                HTTP2Farewell(reset: .internalError), false,
                " ended the stream of the request early (RST_STREAM, INTERNAL_ERROR)."
            ),
        ] as [(HTTP2Farewell, Bool, String)]
    )
    func theFarewellIsTold(_ farewell: HTTP2Farewell, _ isUnread: Bool, _ detail: String) {
        let loss = ConnectionLoss(hasAnswered: false, isUnprocessed: false, isRefused: isUnread, farewell: farewell)
        let problem = Self.problem(loss.problem)
        #expect(problem?.detail == "https://api.example\(detail)")
        #expect(problem?.kind == .upstreamUnreachable && problem?.proxyStatusError == "connection_terminated")
        #expect(problem?.title == "The connection to the upstream was lost")
        #expect(problem?.retryAfter == (isUnread ? .seconds(1) : nil))
    }

    @Test func aRefusedStreamIsNoLostConnection() {
        let farewell = HTTP2Farewell(reset: .refusedStream)
        let loss = ConnectionLoss(hasAnswered: false, isUnprocessed: false, isRefused: true, farewell: farewell)
        #expect(loss.problem == .upstreamRefused)
        #expect(ConnectionLoss(hasAnswered: false, isUnprocessed: false).problem == .upstreamClosedEarly)
    }

    @Test(
        arguments: [
            (.withdrawn, .milliseconds(900)), (.excluded, .milliseconds(900)), (.stalled(.tunnelSilent), .zero),
            (.stalled(.clientStoppedReading), .zero), (.stalled(.upstreamSilent), nil), (.upstreamClosedEarly, nil),
            (.reported, nil),
        ] as [(ExchangeProblem, Duration?)]
    )
    func aCutOfARightIsQuickerThanOneOfALoss(_ reason: ExchangeProblem, _ limit: Duration?) {
        #expect(reason.cutLimit == limit)
    }
}
