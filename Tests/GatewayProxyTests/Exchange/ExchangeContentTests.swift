import Testing

/// Content of a request: copies, 100, limits of time (``ExchangeScript``).
@Suite("Exchange: content", .timeLimit(.minutes(5)))
struct ExchangeContentTests {
    private typealias Script = ExchangeScript.Script

    @Test(arguments: copies + expectations + stalls + collections)
    func contentGoesAsWritten(_ script: ExchangeScript.Script) { ExchangeScript.check(script) }

    private static let copies: [Script] = [
        Script(
            testDescription: "content of the length of the limit is held",
            text: """
                client: POST, part 7, body 3 -> send, body 7, body 3; upstream: 401 -> renew; \
                token: ready -> send again, body 10
                """
        ),
        Script(
            testDescription: "content that is one byte longer is not",
            text: """
                client: POST, part 7, body 4 -> send, body 7, body 4 uncopied; \
                upstream: 401 -> pass (rejectedNotHeld); upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "rejected before the content has become too long: held, and too long on the second try",
            text: """
                client: POST, part 7 -> send, body 7; upstream: 401 -> renew; client: body 4; \
                token: ready -> send again, body 7, body 4 uncopied; upstream: 200 -> pass; upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "a short part behind content that is too long is not held either",
            text: """
                client: PUT, part 30, body 1 -> send, body 30 uncopied, body 1 uncopied; \
                upstream: lost -> refuse: upstreamClosedEarly
                """
        ),
        Script(
            testDescription: "content too long for a copy, of which nothing has left",
            text: """
                client: PUT, content -> send; state: holding -> true; client: part 30 -> body 30 uncopied; \
                state: holding -> false; client: body 1 -> body 1 uncopied
                """
        ),
        Script(
            testDescription: "nothing is held where no second try may come",
            isRenewable: false,
            text: """
                client: POST, content -> send; state: holding -> false; client: body 3 -> body 3 uncopied; \
                upstream: 401 -> pass (rejected); upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "content that ends with an empty part",
            text: """
                client: POST, part 3, body 0 -> send, body 3, body 0; upstream: 401 -> renew; \
                token: ready -> send again, body 3; upstream: 200 -> pass; upstream: ends -> reuse
                """
        ),
    ]

    /// The credential signs the whole body.
    private static let collections: [Script] = [
        Script(
            testDescription: "a body is collected before there is a connection",
            text: """
                token: signs; client: POST, part 3 -> collect, keep 3; state: deadline -> bodyIdle; \
                client: body 4 -> keep 4, send, body 7; upstream: 200 -> pass; upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "without a body nothing is collected",
            text: "token: signs; client: POST -> send; upstream: 200 -> pass; upstream: ends -> reuse"
        ),
        Script(
            testDescription: "a body that does not fit is refused before anything is sent",
            text: "token: signs; client: PUT, part 7 -> collect, keep 7; client: body 4 -> refuse"
        ),
        Script(
            testDescription: "a client that waits for 100 gets it from the gateway, and not again from the upstream",
            text: """
                token: signs; client: POST, expects, content -> collect, continue; client: body 3 -> keep 3, send, body 3; \
                upstream: 100; upstream: 200 -> pass; upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "a client of HTTP/1.0 gets no 100",
            text: "token: signs; client: POST, 1.0, expects, content -> collect; client: body 3 -> keep 3, send, body 3"
        ),
        Script(
            testDescription: "a POST that was collected is sent again on a new connection",
            isRenewable: false,
            text: """
                token: signs; client: POST, body 3 -> collect, keep 3, send, body 3; \
                upstream: lost unread -> dial, send again, body 3; upstream: 200 -> pass; upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "a replay has the body already",
            text: """
                token: signs; client: POST, body 3 -> collect, keep 3, send, body 3; upstream: 401 -> renew; \
                token: ready -> send again, body 3; upstream: 200 -> pass; upstream: ends -> reuse
                """
        ),
        Script(
            testDescription:
                "a challenge before the body is there: the rest is collected, and sent with the second try",
            text: """
                client: POST, part 3 -> send, body 3; upstream: 401 asks -> answer; token: signs; \
                token: ready -> collect; client: body 4 -> keep 4, send again, body 7; upstream: 200 -> pass; \
                upstream: ends -> reuse
                """
        ),
        Script(
            testDescription:
                "the credential is withdrawn meanwhile: the source is asked again, and the collecting goes on",
            text: """
                token: signs; client: POST, part 3 -> collect, keep 3; token: withdrawn -> ask again; \
                token: ready -> collect; client: body 4 -> keep 4, send, body 7; upstream: 200 -> pass; \
                upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "the credential is gone meanwhile",
            text: "token: signs; client: POST, part 3 -> collect, keep 3; token: gone -> refuse: withdrawn"
        ),
        Script(
            testDescription: "a reload begins again only as long as nothing of the body was taken",
            text: "token: signs; client: POST, content -> collect; reload: kept -> begin again"
        ),
        Script(
            testDescription: "a reload that would refuse the request ends it",
            text: "token: signs; client: POST, part 3 -> collect, keep 3; reload: refused -> refuse: excluded"
        ),
        Script(
            testDescription: "a client that stops sending",
            text:
                "token: signs; client: POST, part 3 -> collect, keep 3; time: requestStopped -> refuse: requestStopped"
        ),
        Script(
            testDescription: "a client that leaves",
            text: "token: signs; client: POST, part 3 -> collect, keep 3; client: leaves -> abandon"
        ),
    ]

    private static let expectations: [Script] = [
        Script(
            testDescription: "the content comes behind the 100, and goes with the head of the second try",
            text: """
                client: POST, expects, content -> send; upstream: 100 -> pass on; client: body 3 -> body 3; \
                upstream: 401 -> renew; token: ready -> send again, body 3; upstream: 100; upstream: 200 -> pass; \
                upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "a refusal instead of the 100, and no content",
            text: "client: POST, expects, content -> send; upstream: 403 -> pass; upstream: ends -> close"
        ),
        Script(
            testDescription: "a client that does not wait for the 100",
            text: """
                client: POST, expects, body 3 -> send, body 3; state: deadline -> response; \
                upstream: 100 -> pass on; upstream: 200 -> pass; upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "a client that has begun to send does not wait for the 100 any more",
            text: """
                client: POST, expects, part 3 -> send, body 3; state: deadline -> bodyIdle; upstream: 100 -> pass on; \
                state: deadline -> bodyIdle; upstream: 401 -> renew; token: ready -> send again, body 3; \
                state: deadline -> bodyIdle
                """
        ),
        Script(
            testDescription: "whoever is waited for is under the limit for it",
            text: """
                client: POST, expects, content -> send; state: deadline -> response; upstream: 103 -> pass on; \
                state: deadline -> response; upstream: 100 -> pass on; state: deadline -> bodyIdle; \
                client: part 1 -> body 1; state: deadline -> bodyIdle; client: body 1 -> body 1; \
                state: deadline -> response
                """
        ),
        Script(
            testDescription: "a 100 that nobody has asked for passes once",
            text: "client: GET -> send; upstream: 100 -> pass on; upstream: 100; upstream: 103 -> pass on"
        ),
        Script(
            testDescription: "an HTTP/1.0 client gets no 100 and no 103",
            text: """
                client: POST, 1.0, body 3 -> send, body 3; upstream: 100; upstream: 103; upstream: 200 -> pass; \
                upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "informational responses of both tries pass",
            text: """
                client: GET -> send; upstream: 103 -> pass on; upstream: 401 -> renew; upstream: 103; \
                token: ready -> send again; upstream: 103 -> pass on; upstream: 200 -> pass
                """
        ),
    ]

    private static let stalls: [Script] = [
        Script(
            testDescription: "the upstream takes no more of the content",
            text: """
                client: POST, part 3 -> send, body 3; time: upstreamStoppedReading -> refuse: upstreamStoppedReading
                """
        ),
        Script(
            testDescription: "no 100 comes",
            text: "client: POST, expects, content -> send; time: upstreamSilent -> refuse: upstreamSilent"
        ),
        Script(
            testDescription: "the content stops behind an early response",
            text: "client: POST, part 3 -> send, body 3; upstream: 200 -> pass; time: requestStopped -> cut"
        ),
        Script(
            testDescription: "a silent upstream on the second try",
            text: """
                client: GET -> send; upstream: 401 -> renew; token: ready -> send again; \
                time: upstreamSilent -> refuse: upstreamSilent
                """
        ),
        Script(
            testDescription: "time that passes for no transfer ends nothing",
            text: """
                token: later; pool: later; client: GET -> wait; time: upstreamSilent; token: ready -> connect; \
                time: upstreamSilent; pool: idle -> send; upstream: 401 -> renew; time: upstreamSilent; \
                token: ready -> connect
                """
        ),
        Script(
            testDescription: "a response that breaks a rule, to a request that could be sent again",
            text: "client: GET -> send; upstream: errs -> refuse; token: ready"
        ),
        Script(
            testDescription: "a wait has a limit of its own",
            text: """
                token: later; pool: later; client: PUT, body 3 -> wait; state: deadline -> credential; \
                token: ready -> connect; state: deadline -> none; pool: idle -> send, body 3; \
                state: deadline -> response; upstream: 401 -> renew; state: deadline -> none; token: awaited; \
                state: deadline -> credential; token: locked -> pass held (locked); state: deadline -> responsePause
                """
        ),
        Script(
            testDescription: "a wait that is over leaves no limit to the next one",
            text: """
                token: later; pool: later; client: GET -> wait; state: deadline -> credential; \
                token: ready -> connect; token: withdrawn -> ask again; state: deadline -> none
                """
        ),
        Script(
            testDescription: "content is waited for behind an early response",
            text: """
                client: POST, part 3 -> send, body 3; upstream: 200 -> pass; state: deadline -> bodyIdle; \
                client: body 3 -> body 3 uncopied; state: deadline -> responsePause
                """
        ),
    ]
}
