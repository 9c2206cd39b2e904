import Testing

/// Connections that are lost, and tunnels (``ExchangeScript``).
@Suite("Exchange: losses and tunnels", .timeLimit(.minutes(5)))
struct ExchangeLossTests {
    private typealias Script = ExchangeScript.Script

    @Test(arguments: losses + tunnels)
    func theConnectionIsLostAsWritten(_ script: ExchangeScript.Script) { ExchangeScript.check(script) }

    private static let losses: [Script] = [
        Script(
            testDescription: "a response whose head cannot be sent to the client",
            text: "client: GET -> send; upstream: 200 -> pass; upstream: unsendable -> refuse"
        ),
        Script(
            testDescription: "content that is held goes over a fresh connection",
            text: """
                client: PUT, body 3 -> send, body 3; upstream: lost -> dial, send again, body 3; \
                upstream: 200 -> pass; upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "the rest of the content goes over the fresh connection",
            text: """
                client: PUT, part 3 -> send, body 3; upstream: lost -> dial, send again, body 3; \
                client: body 4 -> body 4; upstream: 200 -> pass; upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "a token that is rejected on the fresh connection",
            text: """
                client: PUT, body 3 -> send, body 3; upstream: lost -> dial, send again, body 3; \
                upstream: 401 -> renew; token: ready -> send again, body 3; upstream: 200 -> pass; \
                upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "the second try is lost on a pooled connection",
            text: """
                client: PUT, body 3 -> send, body 3; upstream: 401 -> renew; token: ready -> send again, body 3; \
                upstream: lost -> dial, send again, body 3; upstream: 401 -> pass (rejectedAgain); \
                upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "each try is lost once, and then no more",
            text: """
                client: GET -> send; upstream: lost -> dial, send again; upstream: 401 -> renew; \
                token: ready -> send again; upstream: lost -> dial, send again; \
                upstream: lost -> refuse: upstreamClosedEarly
                """
        ),
        Script(
            testDescription: "a POST of which nothing was read is sent again with its content",
            text: """
                client: POST, body 3 -> send, body 3; upstream: lost unread -> dial, send again, body 3; \
                upstream: 201 -> pass; upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "a POST that the upstream refused to look at is sent again with its content, three times",
            isRenewable: false,
            text: """
                pool: later; client: POST, body 3 -> connect; pool: stream -> send, body 3; \
                upstream: refuses -> connect; pool: stream -> send again, body 3; \
                upstream: refuses -> connect; pool: stream -> send again, body 3; \
                upstream: refuses -> connect; pool: stream -> send again, body 3; \
                upstream: refuses -> refuse: upstreamRefused
                """
        ),
        Script(
            testDescription: "a POST in the middle of its content goes on behind what was sent again",
            text: """
                pool: later; client: POST, part 3 -> connect; pool: stream -> send, body 3; \
                upstream: refuses -> connect; pool: stream -> send again, body 3; client: body 4 -> body 4
                """
        ),
        Script(
            testDescription: "a POST that may have been read is not",
            text: "client: POST, body 3 -> send, body 3; upstream: lost -> refuse: upstreamClosedEarly"
        ),
        Script(
            testDescription: "a POST in the middle of its content is not",
            text: "client: POST, part 3 -> send, body 3; upstream: lost -> refuse: upstreamClosedEarly; client: body 4"
        ),
        Script(
            testDescription: "no fresh connection",
            text: """
                pool: later; client: GET -> connect; pool: idle -> send; upstream: lost -> dial; pool: failed -> refuse
                """
        ),
        Script(
            testDescription: "the token is taken away while a fresh connection is waited for",
            text: """
                pool: later; client: PUT, body 3 -> connect; pool: idle -> send, body 3; upstream: lost -> dial; \
                token: withdrawn -> ask again; token: ready -> connect; pool: idle -> send again, body 3; \
                upstream: 200 -> pass
                """
        ),
        Script(
            testDescription: "lost behind an informational response",
            text: """
                client: GET -> send; upstream: 103 -> pass on; upstream: lost midway -> refuse: upstreamClosedEarly
                """
        ),
        Script(
            testDescription: "lost within an early response",
            text: "client: PUT, part 3 -> send, body 3; upstream: 200 -> pass; upstream: lost midway -> cut"
        ),
        Script(
            testDescription: "lost while the first response is held back: the second try goes its way",
            text: """
                client: GET -> send; upstream: 401 -> renew; upstream: lost midway; token: ready -> send again; \
                upstream: 200 -> pass; upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "only a request that is whole and idempotent may be repeated by others",
            text: """
                client: PUT, content -> send; state: repeatable -> false; client: part 3 -> body 3; \
                state: repeatable -> false; client: body 3 -> body 3; state: repeatable -> true
                """
        ),
        Script(
            testDescription: "a whole POST may not be repeated by others",
            text: "client: POST -> send; state: repeatable -> false"
        ),
    ]

    private static let tunnels: [Script] = [
        Script(
            testDescription: "a tunnel on the second try",
            text: """
                client: GET -> send; upstream: 401 -> renew; token: ready -> send again; upstream: 101 -> tunnel; \
                state: deadline -> responsePause; upstream: 200; upstream: ends; tunnel: ended -> close
                """
        ),
        Script(
            testDescription: "a protocol that was not offered, on the second try",
            text: """
                client: GET -> send; upstream: 401 -> renew; token: ready -> send again; \
                upstream: 101 unasked -> refuse: protocolNotOffered
                """
        ),
        Script(
            testDescription: "a protocol that was offered, before the content is complete",
            text:
                "client: POST, part 3 -> send, body 3; upstream: 101 -> tunnel; client: body 3; tunnel: ended -> close"
        ),
        Script(
            testDescription: "nothing is sent again when a tunnel is lost",
            text: "client: GET -> send; upstream: 101 -> tunnel; state: holding -> false; upstream: lost unread -> cut"
        ),
        Script(
            testDescription: "a tunnel whose upstream breaks a rule",
            text: "client: GET -> send; upstream: 101 -> tunnel; upstream: errs -> cut"
        ),
        Script(
            testDescription: "no token changes a tunnel",
            text: """
                client: GET -> send; upstream: 101 -> tunnel; token: awaited; token: ready; token: locked; \
                state: phase -> tunnelling; tunnel: ended -> close
                """
        ),
    ]
}
