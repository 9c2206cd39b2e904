import GatewayHTTP
import Testing

@testable import GatewayProxy

/// Events that come too early, too late or once more: from a source, a pool or a timer that was asked before things changed.
@Suite("Exchange: untimely events", .timeLimit(.minutes(5)))
struct ExchangeUntimelyEventTests {
    struct Moment: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var hasContent = false
        let before: [ExchangeEvent]
        let ignored: [ExchangeEvent]
        /// What still happens afterwards.
        let next: ExchangeEvent
        let step: ExchangeStep
    }

    private static let ofCredential: [ExchangeEvent] = [
        .authorized, .bodyAwaited, .credentialAwaited, .credentialUnavailable(.loginRequired),
    ]
    private static let ofConnection: [ExchangeEvent] = [
        .connected(isReused: true), .connected(isReused: false), .connectionFailed,
    ]
    private static let content: [ExchangeEvent] = [
        .requestContent(isHeld: true, isLast: false), .requestContent(isHeld: false, isLast: true),
    ]
    private static let ok = ExchangeEvent.responseHead(ResponseFacts(status: 200))
    private static let rejected = ExchangeEvent.responseHead(
        ResponseFacts(status: 401, rejection: .token(isRenewable: true))
    )
    private static let switching = ExchangeEvent.responseHead(ResponseFacts(status: 101, switchesAsOffered: true))
    private static let heads: [ExchangeEvent] = [
        .informational(status: 100), .informational(status: 103), ok, rejected, switching,
        .responseHead(ResponseFacts(status: 101)),
    ]
    private static let sent: [ExchangeEvent] = [.authorized, .connected(isReused: true)]

    private static let moments: [Moment] = [
        Moment(
            testDescription: "before a token is there",
            before: [],
            ignored: ofConnection + ExchangeEvent.samplesOfTransfer + [.withdrawn],
            next: .authorized,
            step: .connect(isFresh: false)
        ),
        Moment(
            testDescription: "while a token is waited for",
            before: [.credentialAwaited],
            ignored: ofConnection + ExchangeEvent.samplesOfTransfer + [.withdrawn, .credentialAwaited],
            next: .credentialUnavailable(.loginRequired),
            step: .respond(.reported)
        ),
        Moment(
            testDescription: "while a connection is waited for",
            before: [.authorized],
            ignored: ofCredential + ExchangeEvent.samplesOfTransfer,
            next: .connected(isReused: false),
            step: .sendRequest
        ),
        Moment(
            testDescription: "while an operator is waited for",
            before: [.authorized, .approvalAwaited],
            ignored: ofCredential + ofConnection + ExchangeEvent.samplesOfTransfer + [
                .approvalAwaited, .reloaded(takesRight: false, isAdmitted: true),
            ],
            next: .approved,
            step: .connect(isFresh: false)
        ),
        Moment(
            testDescription: "while a login is answered",
            before: [.authorized, .loginAwaited],
            ignored: ofCredential + ofConnection + ExchangeEvent.samplesOfTransfer + [
                .withdrawn, .approvalAwaited, .approved, .loginAwaited, .reloaded(takesRight: false, isAdmitted: true),
            ],
            next: .loginAnswered,
            step: .respond(.reported)
        ),
        Moment(
            testDescription: "while a connection for what was approved is waited for",
            before: [.authorized, .approvalAwaited, .approved],
            ignored: ofCredential + ExchangeEvent.samplesOfTransfer + [.approved, .loginAnswered],
            next: .connected(isReused: false),
            step: .sendRequest
        ),
        Moment(
            testDescription: "while the body is collected",
            hasContent: true,
            before: [.bodyAwaited],
            ignored: ofCredential + ofConnection + heads + [.responseEnded(isReusable: true), .tunnelEnded],
            next: .requestContent(isHeld: true, isLast: true),
            step: .keepContent(isLast: true)
        ),
        Moment(
            testDescription: "while content is missing",
            hasContent: true,
            before: sent,
            ignored: ofCredential + ofConnection + [.responseEnded(isReusable: true), .tunnelEnded],
            next: .requestContent(isHeld: true, isLast: true),
            step: .sendContent(isHeld: true)
        ),
        Moment(
            testDescription: "while content is missing, behind the head of the response",
            hasContent: true,
            before: sent + [ok],
            ignored: ofCredential + ofConnection + heads + [.tunnelEnded],
            next: .requestContent(isHeld: true, isLast: true),
            step: .sendContent(isHeld: false)
        ),
        Moment(
            testDescription: "before the response",
            before: sent,
            ignored: ofCredential + ofConnection + content + [.responseEnded(isReusable: true), .tunnelEnded],
            next: ok,
            step: .passResponse(.none)
        ),
        Moment(
            testDescription: "within the response",
            before: sent + [ok],
            ignored: ofCredential + ofConnection + content + heads + [.tunnelEnded],
            next: .responseEnded(isReusable: true),
            step: .finish(reusesConnection: true)
        ),
        Moment(
            testDescription: "while another token is waited for",
            before: sent + [rejected],
            ignored: ofConnection + ExchangeEvent.samplesOfTransfer + [.withdrawn],
            next: .credentialUnavailable(.locked),
            step: .passHeldResponse(.notReplaced(.locked))
        ),
        Moment(
            testDescription: "while the second try waits for a connection",
            before: sent + [rejected, .authorized],
            ignored: ofCredential + ExchangeEvent.samplesOfTransfer,
            next: .connected(isReused: true),
            step: .sendRequest
        ),
        Moment(
            testDescription: "behind the first response that passes",
            before: sent + [rejected, .credentialUnavailable(.locked)],
            ignored: ofCredential + ofConnection + content + heads + [.tunnelEnded],
            next: .responseEnded(isReusable: true),
            step: .finish(reusesConnection: true)
        ),
        Moment(
            testDescription: "in a tunnel",
            before: sent + [switching],
            ignored: ofCredential + ofConnection + content + heads + [.responseEnded(isReusable: true)],
            next: .tunnelEnded,
            step: .finish(reusesConnection: false)
        ),
    ]

    @Test(arguments: moments)
    func theyChangeNothing(_ moment: Moment) {
        let facts = RequestFacts(isIdempotent: true, hasContent: moment.hasContent)
        var exchange = Exchange(facts, isRenewable: true)
        for event in moment.before { _ = exchange.handle(event) }
        let (phase, begun, isComplete) = (exchange.phase, exchange.responseHasBegun, exchange.requestIsComplete)
        for event in moment.ignored {
            let step = exchange.handle(event)
            #expect(step == .nothing, "\(event)")
            #expect(exchange.phase == phase, "\(event)")
            #expect(exchange.responseHasBegun == begun, "\(event)")
            #expect(exchange.requestIsComplete == isComplete, "\(event)")
        }
        let step = exchange.handle(moment.next)
        #expect(step == moment.step)
    }
}
