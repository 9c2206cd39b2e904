import Testing

/// Tokens that come, are taken away and are rejected (``ExchangeScript``).
@Suite("Exchange: tokens and second tries", .timeLimit(.minutes(5)))
struct ExchangeReplayTests {
    private typealias Script = ExchangeScript.Script

    @Test(arguments: tokens + replays)
    func aTokenComesAndIsRejectedAsWritten(_ script: ExchangeScript.Script) { ExchangeScript.check(script) }

    private static let tokens: [Script] = [
        Script(
            testDescription: "a token and a connection come one after the other",
            text: """
                token: later; pool: later; client: GET -> wait; token: ready -> connect; pool: idle -> send; \
                upstream: 200 -> pass; upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "a token that is asked for again after it was taken away",
            text: """
                pool: later; client: POST, body 3 -> connect; token: withdrawn -> ask again; token: ready -> connect; \
                pool: fresh -> send, body 3; upstream: 200 -> pass; upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "a token that is taken away twice before the request has left",
            text: """
                pool: later; client: GET -> connect; token: withdrawn -> ask again; token: ready -> connect; \
                token: withdrawn -> ask again; token: awaited; token: ready -> connect; pool: idle -> send
                """
        ),
        Script(
            testDescription: "no other token after one that was taken away",
            text: """
                pool: later; client: GET -> connect; token: withdrawn -> ask again; token: awaited; \
                token: token-endpoint-timeout -> refuse; pool: idle
                """
        ),
        Script(
            testDescription: "a connection that came for a token that was taken away",
            text: """
                pool: later; client: GET -> connect; token: withdrawn -> ask again; pool: idle; pool: failed; \
                token: ready -> connect; pool: idle -> send
                """
        ),
        Script(
            testDescription: "too long a wait for a token, while content waits",
            text: "token: later; client: POST, body 3 -> wait; token: token-endpoint-timeout -> refuse"
        ),
    ]

    private static let replays: [Script] = [
        Script(
            testDescription: "a request with content is sent again whole",
            text: """
                client: POST, body 3 -> send, body 3; upstream: 401 -> renew; token: ready -> send again, body 3; \
                upstream: 200 -> pass; upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "content in parts is sent again as one",
            text: """
                client: PUT, part 3, part 4, body 2 -> send, body 3, body 4, body 2; upstream: 401 -> renew; \
                token: ready -> send again, body 9; upstream: 204 -> pass; upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "rejected in the middle of the content: the rest waits for the second try",
            text: """
                client: POST, part 3 -> send, body 3; upstream: 401 -> renew; client: part 4, body 2; \
                token: ready -> send again, body 3, body 4, body 2; upstream: 200 -> pass; upstream: ends -> reuse
                """
        ),
        Script(
            testDescription:
                "rejected in the middle, and no token comes: the content goes on behind the first response",
            text: """
                client: POST, part 3 -> send, body 3; upstream: 401 -> renew; client: body 4; \
                token: login-required -> pass held (login-required), body 4 uncopied; upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "the first response that passes ends before the content does",
            text: """
                client: POST, part 3 -> send, body 3; upstream: 401 -> renew; token: locked -> pass held (locked); \
                upstream: ends -> close; client: body 4
                """
        ),
        Script(
            testDescription: "a client that leaves behind the first response that passes",
            text: """
                client: GET -> send; upstream: 401 -> renew; token: locked -> pass held (locked); client: leaves -> abandon
                """
        ),
        Script(
            testDescription: "an upstream that is lost behind the first response that passes",
            text: """
                client: GET -> send; upstream: 401 -> renew; token: locked -> pass held (locked); \
                upstream: lost midway -> cut
                """
        ),
        Script(
            testDescription: "the second token is rejected, too",
            text: """
                client: POST, body 3 -> send, body 3; upstream: 401 -> renew; token: ready -> send again, body 3; \
                upstream: 401 -> pass (rejectedAgain); upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "a rejection that causes no renewal passes with a note",
            text: """
                client: POST, body 3 -> send, body 3; upstream: 401 suppressed -> pass (notRenewed); \
                upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "a rejection that causes no renewal, of content that is not held",
            text: """
                client: POST, body 30 -> send, body 30 uncopied; upstream: 401 suppressed -> pass (notRenewed); \
                upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "a rejection that causes no renewal, in the middle of the content",
            text: """
                client: POST, part 3 -> send, body 3; upstream: 401 suppressed -> pass (notRenewed); \
                client: body 4 -> body 4 uncopied; upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "a second try whose rejection would cause no renewal either",
            text: """
                client: GET -> send; upstream: 401 -> renew; token: ready -> send again; \
                upstream: 401 suppressed -> pass (rejectedAgain); upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "a credential that only a person can replace",
            isRenewable: false,
            text: """
                client: PUT, body 3 -> send, body 3; upstream: 401 -> pass (rejected); token: ready; \
                upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "a refusal that says nothing of the token",
            text: "client: GET -> send; upstream: 403 -> pass; upstream: ends -> reuse"
        ),
        Script(
            testDescription: "a second try that is refused for another reason",
            text: """
                client: GET -> send; upstream: 401 -> renew; token: ready -> send again; upstream: 403 -> pass; \
                upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "a challenge is answered with the content once more",
            text: """
                client: POST, body 3 -> send, body 3; upstream: 401 asks -> answer; \
                token: ready -> send again, body 3; upstream: 200 -> pass; upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "a challenge to the answer of a challenge passes",
            text: """
                client: GET -> send; upstream: 401 asks -> answer; token: ready -> send again; \
                upstream: 401 asks -> pass; upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "another signature is tried three times, with the content each time",
            text: """
                client: POST, body 3 -> send, body 3; upstream: 401 resigns -> sign; \
                token: ready -> send again, body 3; upstream: 401 resigns -> sign; \
                token: ready -> send again, body 3; upstream: 401 resigns -> sign; \
                token: ready -> send again, body 3; upstream: 401 resigns -> pass; upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "a rejected token behind an answered challenge",
            text: """
                client: GET -> send; upstream: 401 asks -> answer; token: ready -> send again; \
                upstream: 401 -> pass (rejectedAgain); upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "a challenge that nobody can answer, with content that is not held",
            text: """
                client: POST, body 30 -> send, body 30 uncopied; upstream: 401 unanswered -> pass; \
                upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "no connection for the second try, which waits for one",
            text: """
                client: GET -> send; upstream: 401 -> renew; pool: later; token: ready -> connect; \
                pool: failed -> refuse
                """
        ),
        Script(
            testDescription: "the newer token is taken away before the second try has left",
            text: """
                client: POST, body 3 -> send, body 3; upstream: 401 -> renew; pool: later; token: ready -> connect; \
                token: withdrawn -> ask again; token: ready -> connect; pool: idle -> send again, body 3; \
                upstream: 401 -> pass (rejectedAgain); upstream: ends -> reuse
                """
        ),
        Script(
            testDescription: "no other token when the newer one is taken away: the first response is gone by then",
            text: """
                client: GET -> send; upstream: 401 -> renew; pool: later; token: ready -> connect; \
                token: withdrawn -> ask again; token: locked -> refuse
                """
        ),
        Script(
            testDescription: "the rest of the content breaks a rule on the second try",
            text: """
                client: POST, part 3 -> send, body 3; upstream: 401 -> renew; token: ready -> send again, body 3; \
                client: errs -> refuse
                """
        ),
        Script(
            testDescription: "the second try has said that it was one",
            text: """
                client: GET -> send; state: replayed -> false; upstream: 401 -> renew; state: replayed -> false; \
                token: ready -> send again; state: replayed -> true; upstream: 200 -> pass; state: replayed -> true
                """
        ),
    ]
}
