import Testing

@testable import GatewayHTTP
@testable import GatewayProxy

/// Plays an exchange from a text such as
/// `client: POST, body 3 -> send, body 3; upstream: 401 -> renew; token: ready -> send again, body 3; upstream: 200 -> pass`.
///
/// Behind an arrow stands all that the driver has done since the last one. It acts as the driver of the gateway does: it takes
/// content while the rules take it, keeps a copy of it, and sends the copy behind the head of each later try. `part 3` is
/// content that is followed by more, `body 3` the last of it.
///
/// A token and an idle connection are at hand, unless the text begins with `token: later` or `pool: later`. With `token: signs` the
/// credential signs the whole body.
struct ExchangeScript: ~Copyable {
    struct Script: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var isRenewable = true
        let text: String
    }

    /// Of content, in bytes, that is kept.
    private static let copyLimit = 10

    private var exchange: Exchange
    private let isRenewable: Bool
    private var tokenIsAtHand = true
    private var signsBody = false
    private var connectionIsAtHand = true
    /// Content that the client has sent and the exchange has not taken.
    private var unread: [(count: Int, isLast: Bool)] = []
    private var copy: Int? = 0
    private var wasSent = false
    private var done: [String] = []

    private init(_ facts: RequestFacts, isRenewable: Bool) {
        exchange = Exchange(facts, isRenewable: isRenewable)
        self.isRenewable = isRenewable
    }

    static func check(_ text: Script) {
        var script = ExchangeScript(facts(text.text), isRenewable: text.isRenewable)
        for clause in text.text.split(separator: ";") {
            let parts = clause.split(separator: "->", omittingEmptySubsequences: false).map(trimmed)
            script.play(parts[0])
            guard parts.count > 1 else { continue }
            #expect(script.done.joined(separator: ", ") == parts[1], "\(parts[0])")
            script.done = []
        }
        #expect(script.done == [], "the end")
        if script.exchange.phase == .done { script.checkThatItIsOver() }
    }

    private mutating func checkThatItIsOver() {
        #expect(exchange.deadline == .none)
        for event in ExchangeEvent.samples {
            let step = exchange.handle(event)
            #expect(step == .nothing, "\(event) after the end")
            #expect(exchange.phase == .done)
        }
    }

    private static func trimmed(_ text: Substring) -> String { text.split(separator: " ").joined(separator: " ") }

    private static func facts(_ text: String) -> RequestFacts {
        let head = text.split(separator: ";").map(trimmed).first { $0.hasPrefix("client: ") } ?? ""
        let words = Set(head.split { ",: ".contains($0) })
        return RequestFacts(
            isIdempotent: words.isDisjoint(with: ["POST", "PATCH"]),
            hasContent: !words.isDisjoint(with: ["part", "body", "content"]),
            expectsContinue: words.contains("expects"),
            isHTTP10: words.contains("1.0")
        )
    }

    // MARK: Events

    private mutating func play(_ clause: String) {
        guard let colon = clause.firstIndex(of: ":") else { return }
        let words = clause[clause.index(after: colon)...].split { ", ".contains($0) }.map(String.init)
        switch clause[..<colon] {
        case "client": client(words)
        case "token": token(words)
        case "pool": pool(words)
        case "upstream": upstream(words)
        case "tunnel": handle(.tunnelEnded)
        case "operator": handle(words[0] == "asked" ? .approvalAwaited : .approved)
        case "reload": handle(.reloaded(takesRight: words[0] == "excluded", isAdmitted: words[0] == "kept"))
        case "time": stalled(words[0])
        case "state": state(words[0])
        default: Issue.record("unknown: \(clause)")
        }
        readOn()
    }

    private mutating func client(_ words: [String]) {
        for (index, word) in words.enumerated() {
            switch word {
            case "GET", "PUT", "POST", "PATCH": tokenIsAtHand ? authorized() : awaitToken()
            case "part", "body": unread.append((Int(words[index + 1]) ?? 0, word == "body"))
            case "leaves": handle(.clientLeft)
            case "errs": handle(.requestInvalid)
            default: break
            }
        }
    }

    private mutating func authorized() { handle(signsBody ? .bodyAwaited : .authorized) }

    private mutating func awaitToken() {
        done.append("wait")
        handle(.credentialAwaited)
    }

    private mutating func token(_ words: [String]) {
        switch words[0] {
        case "later": tokenIsAtHand = false
        case "signs": signsBody = true
        case "ready": authorized()
        case "awaited": handle(.credentialAwaited)
        case "withdrawn": handle(.withdrawn)
        case "gone": handle(.sourceWithdrawn)
        default: handle(.credentialUnavailable(ProblemKind(rawValue: words[0]) ?? .internalError))
        }
    }

    private mutating func pool(_ words: [String]) {
        switch words[0] {
        case "later": connectionIsAtHand = false
        case "failed": handle(.connectionFailed)
        case "stream": handle(.connected(isReused: true, mayRefuse: true))
        default: handle(.connected(isReused: words[0] == "idle"))
        }
    }

    private mutating func upstream(_ words: [String]) {
        switch words[0] {
        case "ends": handle(.responseEnded(isReusable: !words.contains("unusable")))
        case "lost":
            let loss = ConnectionLoss(hasAnswered: words.contains("midway"), isUnprocessed: words.contains("unread"))
            handle(.upstreamLost(loss))
        case "refuses":
            handle(.upstreamLost(ConnectionLoss(hasAnswered: false, isUnprocessed: false, isRefused: true)))
        case "errs": handle(.responseInvalid)
        case "unsendable": handle(.responseUnsendable)
        default: head(Int(words[0]) ?? 0, words)
        }
    }

    private mutating func head(_ status: Int, _ words: [String]) {
        guard status >= 200 || status == 101 else { return handle(.informational(status: status)) }
        var facts = ResponseFacts(status: status)
        facts.switchesAsOffered = status == 101 && !words.contains("unasked")
        if status == 401 { facts.rejection = .token(isRenewable: isRenewable) }
        if words.contains("suppressed") { facts.rejection = .tokenWithoutRenewal }
        if words.contains("asks") { facts.rejection = .challenge(isAnswered: true) }
        if words.contains("resigns") { facts.rejection = .otherSignature }
        if words.contains("unanswered") { facts.rejection = .challenge(isAnswered: false) }
        handle(.responseHead(facts))
    }

    private mutating func stalled(_ word: String) {
        let stalls: [Stall] = [
            .requestStopped, .upstreamStoppedReading, .upstreamSilent, .responseStopped, .clientStoppedReading,
            .tunnelSilent,
        ]
        guard let stall = stalls.first(where: { "\($0)" == word }) else {
            Issue.record("unknown: \(word)")
            return
        }
        handle(.stalled(stall))
    }

    private mutating func state(_ word: String) {
        switch word {
        case "phase": done.append("\(exchange.phase)")
        case "deadline": done.append("\(exchange.deadline)")
        case "repeatable": done.append("\(exchange.mayRepeat)")
        case "holding": done.append("\(exchange.isHolding)")
        case "replayed": done.append("\(exchange.wasReplayed)")
        default: Issue.record("unknown: \(word)")
        }
    }

    // MARK: Steps

    private mutating func readOn() {
        while exchange.phase == .forwarding || exchange.phase == .collecting, !unread.isEmpty {
            let (count, isLast) = unread.removeFirst()
            let fits = HoldPolicy.fits(count, behind: copy ?? 0, limit: Self.copyLimit)
            handle(.requestContent(isHeld: fits, isLast: isLast), count)
        }
    }

    private mutating func handle(_ event: ExchangeEvent, _ count: Int = 0) {
        switch exchange.handle(event) {
        case .nothing: break
        case .connect(let isFresh): connect(isFresh: isFresh)
        case .reauthorize: done.append("ask again")
        case .collect(let invites): done.append(invites ? "collect, continue" : "collect")
        case .keepContent(let isLast):
            copy = copy.map { $0 + count }
            done.append("keep \(count)")
            if isLast { connect(isFresh: false) }
        case .sendRequest: send()
        case .sendContent(let isHeld):
            copy = isHeld ? copy.map { $0 + count } : nil
            done.append(isHeld ? "body \(count)" : "body \(count) uncopied")
        case .passInformational: done.append("pass on")
        case .passResponse(let outcome): done.append("pass" + Self.text(outcome))
        case .holdResponse:
            if case .responseHead(let facts) = event, case .challenge = facts.rejection { return done.append("answer") }
            if case .responseHead(let facts) = event, facts.rejection == .otherSignature { return done.append("sign") }
            done.append("renew")
        case .passHeldResponse(let outcome): done.append("pass held" + Self.text(outcome))
        case .tunnel: done.append("tunnel")
        case .finish(let reusesConnection): done.append(reusesConnection ? "reuse" : "close")
        case .respond(.reported): done.append("refuse")
        case .respond(.stalled(let stall)): done.append("refuse: \(stall)")
        case .respond(let problem): done.append("refuse: \(problem)")
        case .cut: done.append("cut")
        case .beginAgain: done.append("begin again")
        case .abandon: done.append("abandon")
        }
    }

    private mutating func connect(isFresh: Bool) {
        if isFresh { done.append("dial") }
        guard connectionIsAtHand else { return isFresh ? () : done.append("connect") }
        handle(.connected(isReused: !isFresh))
    }

    private mutating func send() {
        done.append(wasSent ? "send again" : "send")
        wasSent = true
        if let copy, copy > 0 { done.append("body \(copy)") }
    }

    private static func text(_ outcome: RejectionOutcome) -> String {
        switch outcome {
        case .none: ""
        case .notReplaced(let kind): " (\(kind.rawValue))"
        default: " (\(outcome))"
        }
    }
}

extension ExchangeEvent {
    /// Each kind of event once or more.
    static let samples: [ExchangeEvent] =
        [
            .authorized, .bodyAwaited, .credentialAwaited, .credentialUnavailable(.loginRequired), .withdrawn,
            .sourceWithdrawn, .approvalAwaited, .approved, .loginAwaited, .loginAnswered,
            .reloaded(takesRight: true, isAdmitted: false), .reloaded(takesRight: false, isAdmitted: true),
            .reloaded(takesRight: false, isAdmitted: false),
            .connected(isReused: true), .connected(isReused: false), .connectionFailed, .requestInvalid, .clientLeft,
        ] + samplesOfTransfer
    /// Those of them that can come only while the upstream has the request.
    static let samplesOfTransfer: [ExchangeEvent] = [
        .requestContent(isHeld: true, isLast: false), .requestContent(isHeld: false, isLast: true),
        .informational(status: 100), .informational(status: 103), .responseHead(ResponseFacts(status: 200)),
        .responseHead(ResponseFacts(status: 401, rejection: .token(isRenewable: true))),
        .responseHead(ResponseFacts(status: 101, switchesAsOffered: true)), .responseEnded(isReusable: true),
        .upstreamLost(ConnectionLoss(hasAnswered: false, isUnprocessed: true)), .responseInvalid, .tunnelEnded,
        .responseUnsendable, .stalled(.upstreamSilent),
    ]
}
