import GatewayEvents
import GatewayHTTP
import GatewayTokens
import NIOCore

/// A route as an event loop has it ready, with one generation of its credential.
///
/// It holds everything that an ordinary request needs from its route. With a thousand routes in use, each place in
/// memory is a cache miss, and places that point to each other are loaded one after the other.
final class CredentialedRoute {
    // First what every request asks, so that it lies together.

    /// nil where nothing is injected, and before the first generation has come.
    let credential: Credential?
    /// The fields of ``credential`` as they are sent.
    let fieldLines: SecretBytes
    let pool: UpstreamPool
    let responseWriter: ResponseWriter
    let responseFields: ResponseFieldRules
    let hostLine: [UInt8]
    /// `As-User`, `Accept-Encoding` and the fields that the route sets, each with its CRLF; they go behind those of the credential.
    let routeLines: [UInt8]
    /// ``hostLine``, ``fieldLines`` and ``routeLines`` as the fields of HTTP/2 that follow `:path`. What may be a secret is never indexed.
    private(set) lazy var encodedLines = encodeLines()
    /// The base path of the upstream, with the path that a credential adds.
    let basePath: [UInt8]
    let requestFields: RequestFieldRules
    let prefix: PathPrefix
    /// ``CompiledRoute/number``.
    let number: Int32
    /// Nothing is injected.
    let isBare: Bool
    /// Responses may reject ``credential`` by a rule of the route (`rejected_when`).
    let hasRejectionRule: Bool
    /// Each client connection has an upstream connection of its own.
    let usesPrivateConnection: Bool
    /// The gateway says where the request came from: ``CompiledRoute/forwarded``.
    let addsForwarded: Bool
    /// What engines are handed, for those that have asked.
    private var engineAnswers: [EngineAnswer] = []
    /// The audit log knows that this generation is used here.
    private(set) var isUseNoted = false
    let query: InjectedQuery?
    /// The target of a request holds the credential.
    let hasSecretTarget: Bool
    /// How many bytes all of what is injected has, base path and query included.
    let injectedBytes: Int

    let state: WorkerRoute
    /// nil where each rejection counts.
    let rejections: RejectionRecord?
    /// Is told what upstreams say of the credential, where that is always the same one; nil elsewhere, and before an upstream has
    /// asked for it.
    let fixed: FixedCredentialSource?
    private var acceptances = AcceptanceFilter()
    /// What engines were handed it for.
    private var handOuts = AcceptanceFilter()

    init(_ state: WorkerRoute, credential: Credential?, of source: (any CredentialSource)?) {
        let route = state.route
        self.state = state
        self.credential = credential
        rejections = credential == nil ? nil : source?.rejections
        fixed = source?.fixed.flatMap { $0.generation == credential?.generation ? $0 : nil }
        fieldLines = credential?.fieldLines ?? SecretBytes([])
        pool = state.pool
        responseWriter = route.responseWriter
        hostLine = route.hostLine
        let path = credential?.injection.path
        basePath = path.map { $0.value.withValue { route.basePath + $0.utf8 } } ?? route.basePath
        hasSecretTarget = credential?.injection.hasSecretTarget ?? false
        prefix = route.prefix
        number = Int32(clamping: route.number)
        isBare = route.source == nil && route.selection == nil
        hasRejectionRule = credential != nil && route.policy.rejectedWhen != nil
        usesPrivateConnection = route.plan.allowsConnectionAuth
        addsForwarded = route.forwarded.addsOurs
        let own = credential.map { Self.ownedNames(of: $0.injection) } ?? []
        let more = own.filter { !route.ownedNames.contains($0) }
        requestFields = RequestFieldRules(
            ownedNames: more.isEmpty ? route.ownedNames : route.ownedNames + more,
            keepsAuthorization: isBare && route.keepsAuthorization,
            dropsCookies: route.plan.cookies.drops(.cookie),
            dropsForwarded: route.forwarded.dropsTheClients
        )
        responseFields = ResponseFieldRules(
            credentialNames: own,
            requestIDHeader: route.requestIDHeader,
            answersPages: route.answersPages,
            policy: ResponsePolicy(
                cookies: route.plan.cookies,
                allowsConnectionAuth: route.plan.allowsConnectionAuth,
                echo: credential.flatMap { CredentialLeakFilter(of: $0.injection) }
            )
        )
        query = credential?.injection.query.map(InjectedQuery.init)
        // A token can bring more fields than were known when the configuration was checked; they come first.
        let set = route.plan.headers.set.filter { !own.contains(Array(FieldSyntax.slot($0.name).utf8)) }
        routeLines = route.asUserLine + route.codingLine + set.flatMap { $0.line.withValue(\.self) }
        injectedBytes =
            hostLine.count + fieldLines.count + routeLines.count + basePath.count + (query?.pair.count ?? 0)
    }

    private func encodeLines() -> SecretBytes {
        // A line takes at most ten bytes more than in HTTP/1, where it has at least four.
        let room = 4 * (hostLine.count + fieldLines.count + routeLines.count) + 64
        let block = unsafe [UInt8](unsafeUninitializedCapacity: room) { buffer, count in
            var frames = unsafe HTTP2FrameWriter(UnsafeMutableRawBufferPointer(buffer))
            let (hostLine, routeLines) = (hostLine, routeLines)
            frames.fields(hostLine.span, isRequest: true)
            fieldLines.withValue { frames.fields($0.span, isRequest: true, isSecret: true) }
            frames.fields(routeLines.span, isRequest: true, secretNames: requestFields.ownedNames)
            assert(frames.isComplete, "The fields of a route have no room.")
            count = frames.count
        }
        return SecretBytes(block)
    }

    /// The upstream has accepted the credential for this request. Mostly that takes neither a lock nor a clock.
    func accepted(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        by client: String?,
        at now: @autoclosure () -> MonotonicTime
    ) {
        if let fixed {
            let interest = AcceptanceFilter.Interest(templates: fixed.awaitsTemplates, all: fixed.awaitsAcceptance)
            let now = now()
            switch acceptances.report(head, bytes, by: client, for: interest, at: now) {
            case .nothing: break
            case .acceptance: fixed.accepted(by: client, nil, at: now)
            case .template: fixed.accepted(by: client, fixed.template(Int(number), head, bytes), at: now)
            }
        } else if let rejections, let credential, acceptances.isNew(head, bytes) {
            rejections.confirm(rejections.key(Int(number), head, bytes), generation: credential.generation)
        }
    }

    /// An engine was handed the credential for this request.
    func handedOut(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>, at now: MonotonicTime) {
        guard let rejections, let credential, handOuts.isNew(head, bytes) else { return }
        rejections.handedOut(rejections.key(Int(number), head, bytes), generation: credential.generation, at: now)
    }

    /// - Returns: Whether the audit log has to be told that this generation is used here.
    func noteUse() -> Bool {
        guard !isUseNoted else { return false }
        isUseNoted = true
        return true
    }

    /// What the engine with this number is handed; nil if it has not asked yet.
    func engineAnswer(of engine: Int) -> EngineAnswer? { engineAnswers.first { $0.engine == engine } }

    func keep(_ answer: EngineAnswer) { engineAnswers.append(answer) }

    /// Whether requests may use it without asking a source. Not where requests choose their source.
    func isOffered(at now: MonotonicTime) -> Bool { credential?.isOffered(at: now) ?? isBare }

    static func ownedNames(of injection: Injection) -> [[UInt8]] {
        injection.fields.map { $0.name.utf8.map(\.asciiDashed) }.filter { !$0.elementsEqual("authorization".utf8) }
    }
}

/// A credential that goes into the query. A class, because few routes have one: the others keep room for a reference only.
final class InjectedQuery {
    /// Percent-encoded, as in ``pair``.
    let name: [UInt8]
    /// `name=value`, percent-encoded.
    let pair: [UInt8]

    init(_ parameter: Injection.QueryParameter) {
        let name = PercentEncoding.bytes(of: parameter.name)
        self.name = name
        pair = parameter.value.withValue { name + [0x3D] + PercentEncoding.bytes(of: $0) }
    }
}

/// What one worker keeps for one route, whatever the generation of its credential: a ``CompiledRoute`` with connections and counts.
final class WorkerRoute {
    let route: CompiledRoute
    let pool: UpstreamPool
    /// The same upstream in HTTP/1.1. It is ``pool`` where `protocol` of the route is `http1`.
    let http1Pool: UpstreamPool
    /// Requests that wait for a credential, by client (`limits.pending_per_route`, this worker's part).
    private var waiting = ClientPlaces()
    private var http1Fallback = HTTP1Fallback()
    /// The longest time from the end of a request to the head of its response.
    let responseTimeout: TimeAmount
    /// The longest silence within a response or a tunnel.
    let responsePause: TimeAmount

    init(route: CompiledRoute, pool: UpstreamPool, http1Pool: UpstreamPool, limits: Limits) {
        self.route = route
        responseTimeout = TimeAmount(limits.responseTimeout(of: route.plan.timeouts))
        responsePause = TimeAmount(limits.responsePause(of: route.plan.timeouts))
        self.pool = pool
        self.http1Pool = http1Pool
    }

    /// - Returns: Whether one more request of the client may wait for a credential.
    fileprivate func takePlace(for client: String?, under shared: ProxyShared) -> Bool {
        waiting.take(for: client, limit: shared.pendingPerRoute, isShared: shared.hasClients)
    }

    fileprivate func giveBackPlace(of client: String?) { waiting.giveBack(of: client) }

    /// The upstream wants HTTP/1.1 for a request.
    func fallBack(at now: MonotonicTime) { http1Fallback.begin(at: now) }

    /// - Parameter now: Read only after ``fallBack(at:)``.
    func fallsBack(at now: @autoclosure () -> MonotonicTime) -> Bool { http1Fallback.holds(at: now()) }
}

/// How one request waits for a credential of its route: with a place among the requests that wait, and a ticket of the source.
///
/// The request owns it, begins and ends each wait, and has the deadline. The source answers on any thread, and may do so when the
/// request no longer waits, or waits for the second time. The answer is brought to the event loop; ``isWaiting(_:)`` tells whether
/// it still counts.
struct CredentialWait {
    /// Tells the answer of one wait from that of an earlier one.
    typealias Number = UInt64

    private(set) var isWaiting = false
    /// nil until the source has given it out.
    private var ticket: CredentialTicket?
    private var number: Number = 0

    /// Takes a place among the requests that wait.
    ///
    /// - Returns: Why there is none; nil where the request waits now.
    mutating func begin(on route: WorkerRoute, for client: String?, under shared: ProxyShared) -> GatewayProblem? {
        guard route.takePlace(for: client, under: shared) else {
            let detail = "Too many requests already wait for a credential of this route."
            return GatewayProblem(.overloaded, detail, retryAfter: .seconds(1))
        }
        isWaiting = true
        number &+= 1
        return nil
    }

    /// Asks the source. Keep what is returned with ``keep(_:)``.
    ///
    /// - Parameter answer: Called on the event loop, on a later turn, with the number of this wait.
    func ask<Owner: AnyObject>(
        _ source: any CredentialSource,
        for request: CredentialRequest,
        on loop: any EventLoop,
        _ owner: Owner,
        _ answer: @escaping @Sendable (Owner, Result<Credential, GatewayProblem>, Number) -> Void
    ) -> CredentialTicket {
        let (bound, number) = (NIOLoopBound(owner, eventLoop: loop), number)
        return source.wait(for: request) { result in
            loop.execute { answer(bound.value, result, number) }
        }
    }

    mutating func keep(_ ticket: CredentialTicket) {
        if isWaiting { self.ticket = ticket }
    }

    /// Whether an answer is for the wait at hand.
    func isWaiting(_ number: Number) -> Bool { isWaiting && self.number == number }

    /// Tells the source that the request waits no longer; without effect where it does not wait. ``end(on:of:)`` follows.
    func cancel(at source: (any CredentialSource)?) {
        if let ticket { source?.cancel(ticket) }
    }

    /// Gives the place back.
    ///
    /// - Returns: Whether the request has waited.
    mutating func end(on route: WorkerRoute, of client: String?) -> Bool {
        guard isWaiting else { return false }
        isWaiting = false
        ticket = nil
        route.giveBackPlace(of: client)
        return true
    }

    /// The deadline has passed.
    static func timedOut(under limits: Limits) -> GatewayProblem {
        let (waited, call) = (limits.credentialTimeout, TokenKeeper.callDeadline)
        // The call for the token ends before a longer wait does.
        let sequel = waited < call ? "; the call goes on for up to \(call.components.seconds) s" : ""
        let detail = "No token came within \(ConfigUnits.text(waited)) (limits.credential_timeout)\(sequel)."
        return GatewayProblem(.tokenEndpointTimeout, detail, retryAfter: .seconds(1))
    }
}
