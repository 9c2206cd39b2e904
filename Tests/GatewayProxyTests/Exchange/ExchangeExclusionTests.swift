import Testing

/// The right to use the route or the gateway is taken away (``ExchangeScript``): no source is asked, whatever is waited for.
@Suite("Exchange: exclusions", .timeLimit(.minutes(5)))
struct ExchangeExclusionTests {
    private typealias Script = ExchangeScript.Script

    @Test(arguments: exclusions)
    func theRequestEndsAsWritten(_ script: ExchangeScript.Script) { ExchangeScript.check(script) }

    private static let exclusions: [Script] = [
        Script(testDescription: "excluded before anything", text: "reload: excluded -> begin again; client: GET"),
        Script(
            testDescription: "excluded while a token is waited for",
            text: "token: later; client: POST, body 3 -> wait; reload: excluded -> begin again; token: ready"
        ),
        Script(
            testDescription: "excluded while a connection is waited for",
            text: "pool: later; client: GET -> connect; reload: excluded -> begin again; pool: idle"
        ),
        Script(
            testDescription: "excluded while another token is asked for",
            text: """
                pool: later; client: GET -> connect; token: withdrawn -> ask again; \
                reload: excluded -> begin again; token: ready
                """
        ),
        Script(
            testDescription: "excluded before the content",
            text: "client: POST, content -> send; reload: excluded -> refuse: excluded; client: body 3"
        ),
        Script(
            testDescription: "excluded before the 100",
            text: "client: POST, expects, content -> send; reload: excluded -> refuse: excluded; upstream: 100"
        ),
        Script(
            testDescription: "excluded in the middle of the content",
            text: "client: POST, part 3 -> send, body 3; reload: excluded -> refuse: excluded; client: body 3"
        ),
        Script(
            testDescription: "excluded in the middle of the content, behind the head of the response",
            text: """
                client: POST, part 3 -> send, body 3; upstream: 200 -> pass; reload: excluded -> cut; client: body 3
                """
        ),
        Script(
            testDescription: "excluded before the response",
            text: "client: PUT, body 3 -> send, body 3; reload: excluded -> refuse: excluded; upstream: 200"
        ),
        Script(
            testDescription: "excluded behind an informational response",
            text: "client: GET -> send; upstream: 103 -> pass on; reload: excluded -> refuse: excluded"
        ),
        Script(
            testDescription: "excluded within the response",
            text: "client: GET -> send; upstream: 200 -> pass; reload: excluded -> cut; upstream: ends"
        ),
        Script(
            testDescription: "excluded during a replay: the first response does not pass",
            text: """
                client: POST, body 3 -> send, body 3; upstream: 401 -> renew; reload: excluded -> refuse: excluded; \
                token: login-required
                """
        ),
        Script(
            testDescription: "excluded while the newer token is waited for",
            text: """
                client: GET -> send; upstream: 401 -> renew; token: awaited; reload: excluded -> refuse: excluded; \
                token: ready
                """
        ),
        Script(
            testDescription: "excluded while the second try waits for a connection",
            text: """
                client: GET -> send; upstream: 401 -> renew; pool: later; token: ready -> connect; \
                reload: excluded -> refuse: excluded
                """
        ),
        Script(
            testDescription: "excluded during the second try",
            text: """
                client: GET -> send; upstream: 401 -> renew; token: ready -> send again; \
                reload: excluded -> refuse: excluded
                """
        ),
        Script(
            testDescription: "excluded behind the first response that passes",
            text: """
                client: GET -> send; upstream: 401 -> renew; token: locked -> pass held (locked); \
                reload: excluded -> cut
                """
        ),
        Script(
            testDescription: "excluded while a lost connection is replaced",
            text: """
                pool: later; client: GET -> connect; pool: idle -> send; upstream: lost -> dial; \
                reload: excluded -> refuse: excluded; pool: fresh
                """
        ),
        Script(
            testDescription: "excluded in a tunnel",
            text: "client: GET -> send; upstream: 101 -> tunnel; reload: excluded -> cut; tunnel: ended"
        ),
        Script(
            testDescription: "excluded behind the end of the response",
            text: "client: GET -> send; upstream: 200 -> pass; upstream: ends -> reuse; reload: excluded"
        ),
        Script(
            testDescription: "excluded behind the end of a tunnel",
            text: "client: GET -> send; upstream: 101 -> tunnel; tunnel: ended -> close; reload: excluded"
        ),
        Script(
            testDescription: "excluded when the client has left",
            text: "client: GET -> send; client: leaves -> abandon; reload: excluded"
        ),
        Script(
            testDescription: "excluded twice",
            text: "client: GET -> send; upstream: 200 -> pass; reload: excluded -> cut; reload: excluded"
        ),
        Script(
            testDescription: "excluded behind a refusal",
            text: "client: GET -> send; token: withdrawn -> refuse: withdrawn; reload: excluded"
        ),
        Script(
            testDescription: "kept before anything",
            text: "token: later; client: GET -> wait; reload: kept -> begin again; token: ready"
        ),
        Script(
            testDescription: "kept while a connection is waited for",
            text: "pool: later; client: GET -> connect; reload: kept -> begin again; pool: idle"
        ),
        Script(
            testDescription: "kept when the request has left",
            text: "client: GET -> send; reload: kept; upstream: 200 -> pass; reload: kept; upstream: ends -> reuse"
        ),
        Script(
            testDescription: "kept while another token is asked for behind a rejection",
            text: """
                client: GET -> send; upstream: 401 -> renew; reload: kept; token: ready -> send again; \
                upstream: 200 -> pass
                """
        ),
        Script(
            testDescription: "kept while a connection is replaced that nothing has left on",
            text: """
                pool: later; client: GET -> connect; pool: idle -> send; upstream: lost unread -> dial; \
                reload: kept -> begin again; pool: fresh
                """
        ),
        Script(
            testDescription: "kept while a connection is replaced that content was written to",
            text: """
                pool: later; client: POST, part 3 -> connect; pool: idle -> send, body 3; \
                upstream: lost unread -> dial; reload: kept; pool: fresh -> send again, body 3
                """
        ),
        Script(
            testDescription: "kept while a lost connection is replaced",
            text: """
                pool: later; client: GET -> connect; pool: idle -> send; upstream: lost -> dial; \
                reload: kept; pool: fresh -> send again
                """
        ),
        Script(
            testDescription: "not admitted any more, when the request has left: it goes on",
            text: "client: GET -> send; reload: narrowed; upstream: 200 -> pass; upstream: ends -> reuse"
        ),
        Script(
            testDescription: "not admitted any more: no second try behind a rejection",
            text: "client: GET -> send; reload: narrowed; upstream: 401 -> pass (rejected); upstream: ends -> reuse"
        ),
        Script(
            testDescription: "not admitted any more: no second try behind a challenge",
            text: "client: GET -> send; reload: narrowed; upstream: 401 asks -> pass; upstream: ends -> reuse"
        ),
        Script(
            testDescription: "not admitted any more: no other connection behind a loss",
            text: "client: GET -> send; reload: narrowed; upstream: lost unread -> refuse: upstreamClosedEarly"
        ),
        Script(
            testDescription: "not admitted any more, while another token is asked for behind a rejection",
            text: """
                client: GET -> send; upstream: 401 -> renew; reload: narrowed -> refuse: excluded; token: ready
                """
        ),
        Script(
            testDescription: "not admitted any more, while a lost connection is replaced",
            text: """
                pool: later; client: GET -> connect; pool: idle -> send; upstream: lost -> dial; \
                reload: narrowed -> refuse: excluded; pool: fresh
                """
        ),
    ]
}
