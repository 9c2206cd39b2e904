import GatewayHTTP
import Testing

@testable import GatewayProxy

/// Each transcript reads as events and, behind the arrow, what the exchange answers.
@Suite("Exchange: transcripts", .timeLimit(.minutes(5)))
struct ExchangeTranscriptTests {
    struct Line: Sendable {
        let event: ExchangeEvent
        let step: ExchangeStep
    }

    struct Transcript: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var request = RequestFacts(isIdempotent: true, hasContent: false)
        var isRenewable = true
        let lines: [Line]
    }

    @Test(arguments: transcripts)
    func theExchangeAnswersAsWritten(_ transcript: Transcript) {
        var exchange = Exchange(transcript.request, isRenewable: transcript.isRenewable)
        for (number, line) in transcript.lines.enumerated() {
            let step = exchange.handle(line.event)
            #expect(step == line.step, "line \(number + 1): \(line.event)")
        }
    }
}

infix operator --> : AdditionPrecedence
private func --> (event: ExchangeEvent, step: ExchangeStep) -> ExchangeTranscriptTests.Line {
    ExchangeTranscriptTests.Line(event: event, step: step)
}

private let get = RequestFacts(isIdempotent: true, hasContent: false)
private let put = RequestFacts(isIdempotent: true, hasContent: true)
private let post = RequestFacts(isIdempotent: false, hasContent: true)
private let emptyPost = RequestFacts(isIdempotent: false, hasContent: false)
private let postAfterContinue = RequestFacts(isIdempotent: false, hasContent: true, expectsContinue: true)
private let oldClient = RequestFacts(isIdempotent: false, hasContent: true, expectsContinue: false, isHTTP10: true)

private let ok = ExchangeEvent.responseHead(ResponseFacts(status: 200))
private let rejected = ExchangeEvent.responseHead(ResponseFacts(status: 401, rejection: .token(isRenewable: true)))
private let rejectedForGood = ExchangeEvent.responseHead(
    ResponseFacts(status: 401, rejection: .token(isRenewable: false))
)
private let challenged = ExchangeEvent.responseHead(ResponseFacts(status: 401, rejection: .challenge(isAnswered: true)))
private let challengedInVain = ExchangeEvent.responseHead(
    ResponseFacts(status: 401, rejection: .challenge(isAnswered: false))
)
private let switching = ExchangeEvent.responseHead(ResponseFacts(status: 101, switchesAsOffered: true))
private let switchingUnasked = ExchangeEvent.responseHead(ResponseFacts(status: 101))
private let more = ExchangeEvent.requestContent(isHeld: true, isLast: false)
private let last = ExchangeEvent.requestContent(isHeld: true, isLast: true)
private let tooMuch = ExchangeEvent.requestContent(isHeld: false, isLast: false)
private let lastTooMuch = ExchangeEvent.requestContent(isHeld: false, isLast: true)
private let lostUnsent = ExchangeEvent.upstreamLost(ConnectionLoss(hasAnswered: false, isUnprocessed: true))
private let lostBeforeAnswer = ExchangeEvent.upstreamLost(ConnectionLoss(hasAnswered: false, isUnprocessed: false))
private let lostInAnswer = ExchangeEvent.upstreamLost(ConnectionLoss(hasAnswered: true, isUnprocessed: false))

private let authorized = ExchangeEvent.authorized --> .connect(isFresh: false)
private let sent = ExchangeEvent.connected(isReused: true) --> .sendRequest
private let sentOnFresh = ExchangeEvent.connected(isReused: false) --> .sendRequest
private let passed = ok --> .passResponse(.none)
private let done = ExchangeEvent.responseEnded(isReusable: true) --> .finish(reusesConnection: true)
private let held = rejected --> .holdResponse

private typealias Transcript = ExchangeTranscriptTests.Transcript

private let transcripts: [Transcript] = plain + replays + losses + early + withdrawals + tunnels + failures

private let plain: [Transcript] = [
    Transcript(testDescription: "a GET with a token at hand", lines: [authorized, sent, passed, done]),
    Transcript(
        testDescription: "a GET that waits for a token",
        lines: [.credentialAwaited --> .nothing, authorized, sent, passed, done]
    ),
    Transcript(
        testDescription: "a POST in three pieces",
        request: post,
        lines: [
            authorized, sent, more --> .sendContent(isHeld: true), more --> .sendContent(isHeld: true),
            last --> .sendContent(isHeld: true), passed, done,
        ]
    ),
    Transcript(
        testDescription: "a POST that nothing holds: no renewable token, no idempotent method",
        request: post,
        isRenewable: false,
        lines: [authorized, sent, last --> .sendContent(isHeld: false), passed, done]
    ),
    Transcript(
        testDescription: "a PUT is held without a renewable token: the connection may be lost",
        request: put,
        isRenewable: false,
        lines: [authorized, sent, last --> .sendContent(isHeld: true), passed, done]
    ),
    Transcript(
        testDescription: "too much content ends the holding, not the upload",
        request: post,
        lines: [
            authorized, sent, more --> .sendContent(isHeld: true), tooMuch --> .sendContent(isHeld: false),
            // The rest alone would be of no use.
            last --> .sendContent(isHeld: false), passed, done,
        ]
    ),
    Transcript(
        testDescription: "a connection that cannot carry more is not reused",
        lines: [authorized, sent, passed, .responseEnded(isReusable: false) --> .finish(reusesConnection: false)]
    ),
    Transcript(
        testDescription: "informational responses pass",
        lines: [
            authorized, sent, .informational(status: 103) --> .passInformational,
            .informational(status: 102) --> .passInformational, passed, done,
        ]
    ),
    Transcript(
        testDescription: "an HTTP/1.0 client gets no informational response",
        request: oldClient,
        lines: [
            authorized, sent, .informational(status: 103) --> .nothing, last --> .sendContent(isHeld: true), passed,
            done,
        ]
    ),
    Transcript(
        testDescription: "Expect: the 100 passes, and a second one does not",
        request: postAfterContinue,
        lines: [
            authorized, sent, .informational(status: 100) --> .passInformational,
            .informational(status: 100) --> .nothing, last --> .sendContent(isHeld: true), passed, done,
        ]
    ),
    Transcript(
        testDescription: "nothing informational passes behind the final head",
        lines: [authorized, sent, passed, .informational(status: 103) --> .nothing, done]
    ),
    Transcript(
        testDescription: "a second final head is not passed",
        lines: [authorized, sent, passed, ok --> .nothing, done]
    ),
]

private let replays: [Transcript] = [
    Transcript(
        testDescription: "a rejected token: held back, renewed, sent again",
        lines: [authorized, sent, held, authorized, sent, passed, done]
    ),
    Transcript(
        testDescription: "the renewal takes a while",
        lines: [authorized, sent, held, .credentialAwaited --> .nothing, authorized, sent, passed, done]
    ),
    Transcript(
        testDescription: "the second token is rejected, too: that answer passes",
        lines: [authorized, sent, held, authorized, sent, rejected --> .passResponse(.rejectedAgain), done]
    ),
    Transcript(
        testDescription: "no other token comes: the rejecting answer passes",
        lines: [
            authorized, sent, held,
            .credentialUnavailable(.loginRequired) --> .passHeldResponse(.notReplaced(.loginRequired)), done,
        ]
    ),
    Transcript(
        testDescription: "no other token comes in the middle of an upload: the answer passes, the upload goes on",
        request: post,
        lines: [
            authorized, sent, more --> .sendContent(isHeld: true), held,
            .credentialUnavailable(.tokenEndpointTimeout) --> .passHeldResponse(.notReplaced(.tokenEndpointTimeout)),
            last --> .sendContent(isHeld: false), done,
        ]
    ),
    Transcript(
        testDescription: "a token that only a person can replace: the answer passes",
        isRenewable: false,
        lines: [authorized, sent, rejectedForGood --> .passResponse(.rejected), done]
    ),
    Transcript(
        testDescription: "a POST that is held is sent again whole",
        request: post,
        lines: [authorized, sent, last --> .sendContent(isHeld: true), held, authorized, sent, passed, done]
    ),
    Transcript(
        testDescription: "a POST too long to be held gets the rejecting answer",
        request: post,
        lines: [
            authorized, sent, lastTooMuch --> .sendContent(isHeld: false),
            rejected --> .passResponse(.rejectedNotHeld), done,
        ]
    ),
    Transcript(
        testDescription: "rejected before the content has come: the rest follows on the second try",
        request: post,
        lines: [
            authorized, sent, more --> .sendContent(isHeld: true), held, authorized, sent,
            last --> .sendContent(isHeld: true), passed, done,
        ]
    ),
    Transcript(
        testDescription: "nothing is read from the client during a replay",
        request: post,
        lines: [authorized, sent, more --> .sendContent(isHeld: true), held, last --> .nothing, authorized, sent]
    ),
    Transcript(
        testDescription: "Expect: rejected instead of 100, the second try waits for 100 again",
        request: postAfterContinue,
        lines: [
            authorized, sent, held, authorized, sent, .informational(status: 100) --> .passInformational,
            last --> .sendContent(isHeld: true), passed, done,
        ]
    ),
    Transcript(
        testDescription: "Expect: the 100 of the second try does not pass again",
        request: postAfterContinue,
        lines: [
            authorized, sent, .informational(status: 100) --> .passInformational,
            last --> .sendContent(isHeld: true), held, authorized, sent, .informational(status: 100) --> .nothing,
            passed,
            done,
        ]
    ),
    Transcript(
        testDescription: "a challenge that the source answers is followed by a second try",
        lines: [authorized, sent, challenged --> .holdResponse, authorized, sent, passed, done]
    ),
    Transcript(
        testDescription: "a challenge that the source cannot answer passes",
        lines: [authorized, sent, challengedInVain --> .passResponse(.none), done]
    ),
    Transcript(
        testDescription: "a challenge to content that is not held passes with a note",
        request: post,
        lines: [
            authorized, sent, lastTooMuch --> .sendContent(isHeld: false),
            challenged --> .passResponse(.challengedNotHeld), done,
        ]
    ),
    Transcript(
        testDescription: "no connection for the second try",
        lines: [authorized, sent, held, authorized, .connectionFailed --> .respond(.reported)]
    ),
    Transcript(
        testDescription: "the client leaves during a replay",
        lines: [authorized, sent, held, .clientLeft --> .abandon, .authorized --> .nothing]
    ),
    Transcript(
        testDescription: "each try has a right to a fresh connection",
        lines: [
            authorized, sent, lostUnsent --> .connect(isFresh: true), sentOnFresh, held, authorized, sent,
            lostUnsent --> .connect(isFresh: true), sentOnFresh, passed, done,
        ]
    ),
]

private let losses: [Transcript] = [
    Transcript(
        testDescription: "a pooled connection lost under a GET",
        lines: [authorized, sent, lostBeforeAnswer --> .connect(isFresh: true), sentOnFresh, passed, done]
    ),
    Transcript(
        testDescription: "a pooled connection lost under a POST that may have arrived",
        request: emptyPost,
        lines: [authorized, sent, lostBeforeAnswer --> .respond(.upstreamClosedEarly)]
    ),
    Transcript(
        testDescription: "a pooled connection lost under a POST of which nothing has left",
        request: emptyPost,
        lines: [authorized, sent, lostUnsent --> .connect(isFresh: true), sentOnFresh, passed, done]
    ),
    Transcript(
        testDescription: "a fresh connection lost under a GET",
        lines: [authorized, sentOnFresh, lostBeforeAnswer --> .respond(.upstreamClosedEarly)]
    ),
    Transcript(
        testDescription: "lost twice",
        lines: [
            authorized, sent, lostBeforeAnswer --> .connect(isFresh: true), sent,
            lostBeforeAnswer --> .respond(.upstreamClosedEarly),
        ]
    ),
    Transcript(
        testDescription: "lost behind a part of the head",
        lines: [authorized, sent, lostInAnswer --> .respond(.upstreamClosedEarly)]
    ),
    Transcript(
        testDescription: "lost within the response",
        lines: [authorized, sent, passed, lostInAnswer --> .cut(.upstreamClosedEarly)]
    ),
    Transcript(
        testDescription: "a PUT that is held, lost behind its content",
        request: put,
        lines: [
            authorized, sent, last --> .sendContent(isHeld: true), lostBeforeAnswer --> .connect(isFresh: true),
            sentOnFresh, passed, done,
        ]
    ),
    Transcript(
        testDescription: "a PUT too long to be held, lost behind its content",
        request: put,
        lines: [
            authorized, sent, lastTooMuch --> .sendContent(isHeld: false),
            lostBeforeAnswer --> .respond(.upstreamClosedEarly),
        ]
    ),
    Transcript(
        testDescription: "a PUT lost in the middle of its content goes on over another connection",
        request: put,
        lines: [
            authorized, sent, more --> .sendContent(isHeld: true), lostBeforeAnswer --> .connect(isFresh: true),
            sentOnFresh, last --> .sendContent(isHeld: true), passed, done,
        ]
    ),
    Transcript(
        testDescription: "lost while another connection is waited for",
        lines: [authorized, lostBeforeAnswer --> .nothing, sent, passed, done]
    ),
]

private let early: [Transcript] = [
    Transcript(
        testDescription: "a response before the content: the upload goes on, the connection is not reused",
        request: post,
        lines: [authorized, sent, passed, .responseEnded(isReusable: true) --> .finish(reusesConnection: false)]
    ),
    Transcript(
        testDescription: "a response before the content, and then the content",
        request: post,
        lines: [authorized, sent, passed, last --> .sendContent(isHeld: false), done]
    ),
    Transcript(
        testDescription: "an early response ends the holding",
        request: post,
        lines: [authorized, sent, more --> .sendContent(isHeld: true), passed, more --> .sendContent(isHeld: false)]
    ),
    Transcript(
        testDescription: "content that breaks a rule behind an early response",
        request: post,
        lines: [authorized, sent, passed, .requestInvalid --> .cut(.reported)]
    ),
]

private let withdrawals: [Transcript] = [
    Transcript(
        testDescription: "withdrawn while a token is waited for: the source will say",
        lines: [
            .credentialAwaited --> .nothing, .withdrawn --> .nothing,
            .credentialUnavailable(.locked) --> .respond(.reported),
        ]
    ),
    Transcript(
        testDescription: "withdrawn while a connection is waited for: asked again",
        lines: [
            authorized, .withdrawn --> .reauthorize, .credentialUnavailable(.locked) --> .respond(.reported),
        ]
    ),
    Transcript(
        testDescription: "a connection that comes behind the withdrawal is not used",
        lines: [authorized, .withdrawn --> .reauthorize, .connected(isReused: false) --> .nothing],
    ),
    Transcript(
        testDescription:
            "withdrawn while a connection is replaced that kept content was written to: sent again with another token",
        request: post,
        lines: [
            authorized, sent, more --> .sendContent(isHeld: true), lostUnsent --> .connect(isFresh: true),
            .withdrawn --> .reauthorize, authorized, sentOnFresh, last --> .sendContent(isHeld: true), passed, done,
        ]
    ),
    Transcript(
        testDescription:
            "withdrawn while a connection is replaced that other content was written to: it is not at hand",
        request: post,
        lines: [
            authorized, sent, tooMuch --> .sendContent(isHeld: false), lostUnsent --> .connect(isFresh: true),
            .withdrawn --> .respond(.withdrawn), .connected(isReused: false) --> .nothing,
        ]
    ),
    Transcript(
        testDescription: "withdrawn for good while a connection is waited for",
        lines: [authorized, .sourceWithdrawn --> .respond(.withdrawn), .connected(isReused: false) --> .nothing]
    ),
    Transcript(
        testDescription: "withdrawn for good during a replay: the first answer does not pass",
        lines: [
            authorized, sent, held, .sourceWithdrawn --> .respond(.withdrawn),
            .credentialUnavailable(.locked) --> .nothing,
        ]
    ),
    Transcript(
        testDescription: "withdrawn for good within the response",
        lines: [authorized, sent, passed, .sourceWithdrawn --> .cut(.withdrawn)]
    ),
    Transcript(
        testDescription: "withdrawn before the response",
        lines: [authorized, sent, .withdrawn --> .respond(.withdrawn)]
    ),
    Transcript(
        testDescription: "withdrawn in the middle of an upload",
        request: post,
        lines: [
            authorized, sent, more --> .sendContent(isHeld: true), .withdrawn --> .respond(.withdrawn),
            last --> .nothing,
        ]
    ),
    Transcript(
        testDescription: "withdrawn within the response",
        lines: [authorized, sent, passed, .withdrawn --> .cut(.withdrawn)]
    ),
    Transcript(
        testDescription: "withdrawn during a replay: the source will say, and the first answer passes",
        lines: [
            authorized, sent, held, .withdrawn --> .nothing,
            .credentialUnavailable(.locked) --> .passHeldResponse(.notReplaced(.locked)), done,
        ]
    ),
    Transcript(
        testDescription: "withdrawn in a tunnel",
        lines: [authorized, sent, switching --> .tunnel, .withdrawn --> .cut(.withdrawn)]
    ),
]

private let tunnels: [Transcript] = [
    Transcript(
        testDescription: "a tunnel",
        lines: [authorized, sent, switching --> .tunnel, .tunnelEnded --> .finish(reusesConnection: false)]
    ),
    Transcript(
        testDescription: "a protocol that was not offered",
        lines: [authorized, sent, switchingUnasked --> .respond(.protocolNotOffered)]
    ),
    Transcript(
        testDescription: "a tunnel whose upstream is lost",
        lines: [authorized, sent, switching --> .tunnel, lostUnsent --> .cut(.upstreamClosedEarly)]
    ),
    Transcript(
        testDescription: "a tunnel whose client is lost",
        lines: [authorized, sent, switching --> .tunnel, .clientLeft --> .abandon]
    ),
    Transcript(
        testDescription: "a tunnel that nobody uses",
        lines: [authorized, sent, switching --> .tunnel, .stalled(.tunnelSilent) --> .cut(.stalled(.tunnelSilent))]
    ),
]

private let failures: [Transcript] = [
    Transcript(
        testDescription: "no token",
        lines: [.credentialUnavailable(.loginRequired) --> .respond(.reported), authorizedInVain]
    ),
    Transcript(testDescription: "no connection", lines: [authorized, .connectionFailed --> .respond(.reported)]),
    Transcript(
        testDescription: "the client leaves while a token is waited for",
        lines: [.credentialAwaited --> .nothing, .clientLeft --> .abandon, authorizedInVain]
    ),
    Transcript(
        testDescription: "the client leaves while a connection is waited for",
        lines: [authorized, .clientLeft --> .abandon, .connected(isReused: false) --> .nothing]
    ),
    Transcript(
        testDescription: "the client leaves before the response",
        lines: [authorized, sent, .clientLeft --> .abandon, ok --> .nothing]
    ),
    Transcript(
        testDescription: "the client leaves within the response",
        lines: [authorized, sent, passed, .clientLeft --> .abandon, .responseEnded(isReusable: true) --> .nothing]
    ),
    Transcript(
        testDescription: "content that breaks a rule",
        request: post,
        lines: [authorized, sent, .requestInvalid --> .respond(.reported), last --> .nothing]
    ),
    Transcript(
        testDescription: "too long a request is refused before it is sent",
        request: post,
        lines: [.requestInvalid --> .respond(.reported), authorizedInVain]
    ),
    Transcript(
        testDescription: "a response that breaks a rule",
        lines: [authorized, sent, .responseInvalid --> .respond(.reported)]
    ),
    Transcript(
        testDescription: "a response whose content breaks a rule",
        lines: [authorized, sent, passed, .responseInvalid --> .cut(.reported)]
    ),
    Transcript(
        testDescription: "a silent upstream",
        lines: [authorized, sent, .stalled(.upstreamSilent) --> .respond(.stalled(.upstreamSilent))]
    ),
    Transcript(
        testDescription: "a client that stops sending",
        request: post,
        lines: [authorized, sent, .stalled(.requestStopped) --> .respond(.stalled(.requestStopped))]
    ),
    Transcript(
        testDescription: "a client that stops reading",
        lines: [authorized, sent, passed, .stalled(.clientStoppedReading) --> .cut(.stalled(.clientStoppedReading))]
    ),
]

private let authorizedInVain = ExchangeEvent.authorized --> .nothing
