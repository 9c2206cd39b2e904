import GatewayEvents
import GatewayHTTP
import GatewayTokens
import NIOCore

/// A route on one event loop, prepared with one generation of its credential.
///
/// It holds everything that an ordinary request needs from its route. With a thousand routes in use, each object is a cache miss,
/// and objects that point to each other are loaded one after the other.
final class CredentialedRoute {
    // The properties that every request reads come first, so that they share cache lines.

    /// nil if nothing is injected, and before the first generation was obtained.
    let credential: Credential?
    /// The header fields of ``credential``, as they are sent.
    let fieldLines: SecretBytes
    let pool: UpstreamPool
    let responseWriter: ResponseWriter
    let responseFields: ResponseFieldRules
    let hostLine: [UInt8]
    /// `As-User`, `Accept-Encoding` and the fields that the route sets, each with its CRLF. They follow the fields of the
    /// credential.
    let routeLines: [UInt8]
    /// ``hostLine``, ``fieldLines`` and ``routeLines`` as the HTTP/2 fields that follow `:path`. Possible secrets are never
    /// indexed.
    private(set) lazy var encodedLines = encodeLines()
    /// The upstream's base path, plus the path that the credential adds.
    let basePath: [UInt8]
    let requestFields: RequestFieldRules
    let prefix: PathPrefix
    /// ``CompiledRoute/number``.
    let number: Int32
    /// Nothing is injected.
    let isBare: Bool
    /// ``credential`` signs each request.
    let isSigned: Bool
    /// Some request may be collected before it is sent or answered: for a signature, or for ``BodyRules``.
    let mayCollect: Bool
    /// A rule of the route goes beyond the heads of requests (``BodyRules``).
    let hasBodyRules: Bool
    /// A rule of the route (`rejected_when`) or the signer of ``credential`` recognizes rejections besides a 401.
    let judgesResponses: Bool
    /// Each client connection has its own upstream connection.
    let usesPrivateConnection: Bool
    /// The gateway adds fields that name the client: ``CompiledRoute/forwarded``.
    let addsForwarded: Bool
    /// The answers for the engines that have asked so far.
    private var engineAnswers: [EngineAnswer] = []
    /// The audit log has an event that this generation is used on this route.
    private(set) var isUseNoted = false
    let query: InjectedQuery?
    /// Requests in HTTP/1 are sent to a proxy, which sends them on.
    let absoluteForm: AbsoluteForm?
    /// The credential is part of the request target.
    let hasSecretTarget: Bool
    /// The size in bytes of everything that is injected, including base path and query.
    let injectedBytes: Int

    let state: WorkerRoute
    /// nil if every rejection counts.
    let rejections: RejectionRecord?
    /// The source of a static credential, which is told whether upstreams accept it. nil for other sources, and before an upstream
    /// has asked for the credential.
    let fixed: FixedCredentialSource?
    private var acceptances = AcceptanceFilter()
    /// The requests for which engines were given the credential.
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
        isSigned = credential?.signer != nil
        hasBodyRules = !route.capturePoints.isEmpty || route.plan.allow.contains { $0.tools != nil || $0.needsApproval }
        mayCollect = isSigned || hasBodyRules
        judgesResponses = credential != nil && (route.policy.rejectedWhen != nil || credential?.signer?.judge != nil)
        usesPrivateConnection = route.plan.allowsConnectionAuth
        addsForwarded = route.forwarded.addsOurs
        let own = credential.map { Self.ownedNames(of: $0) } ?? []
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
        absoluteForm = state.http1Pool.target.absoluteForm
        // A token may bring fields that were not known when the configuration was checked. They take precedence.
        let set = route.plan.headers.set.filter { !own.contains(Array(FieldSyntax.slot($0.name).utf8)) }
        routeLines = route.asUserLine + route.codingLine + set.flatMap { $0.line.withValue(\.self) }
        injectedBytes =
            hostLine.count + fieldLines.count + routeLines.count + basePath.count + (query?.pair.count ?? 0)
    }

    private func encodeLines() -> SecretBytes {
        // A field needs at most ten bytes more than its line in HTTP/1, which has at least four.
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

    /// The upstream has accepted the credential for this request. Usually this needs neither a lock nor a clock.
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

    /// An engine was given the credential for this request.
    func handedOut(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>, at now: MonotonicTime) {
        guard let rejections, let credential, handOuts.isNew(head, bytes) else { return }
        rejections.handedOut(rejections.key(Int(number), head, bytes), generation: credential.generation, at: now)
    }

    /// - Returns: Whether this is the first use of the generation on this route, which the audit log records.
    func noteUse() -> Bool {
        guard !isUseNoted else { return false }
        isUseNoted = true
        return true
    }

    /// The answer for the engine with this number; nil if it has not asked yet.
    func engineAnswer(of engine: Int) -> EngineAnswer? { engineAnswers.first { $0.engine == engine } }

    func keep(_ answer: EngineAnswer) { engineAnswers.append(answer) }

    /// Whether requests may use it without asking a source. It is not asked if the request chooses its source.
    func isOffered(at now: MonotonicTime) -> Bool { credential?.isOffered(at: now) ?? isBare }

    static func ownedNames(of credential: Credential) -> [[UInt8]] {
        credential.ownedFields.map { $0.utf8.map(\.asciiDashed) }.filter { !$0.elementsEqual("authorization".utf8) }
    }
}

/// A credential that is sent in the query. A class, because few routes have one, and a reference is small.
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

/// One worker's state for one route, which all generations of its credential share: a ``CompiledRoute`` with connections and
/// counts.
final class WorkerRoute {
    let route: CompiledRoute
    let pool: UpstreamPool
    /// Connections to the same upstream in HTTP/1.1. With `protocol: http1`, it is ``pool``.
    let http1Pool: UpstreamPool
    /// Requests that wait for a credential, by client (this worker's share of `limits.pending_per_route`).
    private var waiting = ClientPlaces()
    private var http1Fallback = HTTP1Fallback()
    /// The longest wait from the end of a request to the head of its response.
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

    /// The upstream requires HTTP/1.1 for a request.
    func fallBack(at now: MonotonicTime) { http1Fallback.begin(at: now) }

    /// - Parameter now: Evaluated only after ``fallBack(at:)``.
    func fallsBack(at now: @autoclosure () -> MonotonicTime) -> Bool { http1Fallback.holds(at: now()) }
}

/// A request's wait for a credential: its place among the waiting requests of the route, and its ticket at the source.
///
/// The request owns it, begins and ends each wait, and sets the deadline. The source answers on any thread, possibly after the wait
/// has ended or while the request waits a second time. The answer is passed to the event loop, where ``isWaiting(_:)`` tells
/// whether it is still wanted.
struct CredentialWait {
    /// Tells the answers to successive waits apart.
    typealias Number = UInt64

    private(set) var isWaiting = false
    /// nil until the source has returned it.
    private var ticket: CredentialTicket?
    private var number: Number = 0

    /// Takes a place among the requests that wait.
    ///
    /// - Returns: Why there is no place; nil if the request now waits.
    mutating func begin(on route: WorkerRoute, for client: String?, under shared: ProxyShared) -> GatewayProblem? {
        guard route.takePlace(for: client, under: shared) else {
            let detail = "Too many requests already wait for a credential of this route."
            return GatewayProblem(.overloaded, detail, retryAfter: .seconds(1))
        }
        isWaiting = true
        number &+= 1
        return nil
    }

    /// Asks the source. Pass the returned ticket to ``keep(_:)``.
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

    /// What takes the answer of something else than a source.
    ///
    /// - Parameter answer: See ``ask(_:for:on:_:_:)``.
    func answer<Owner: AnyObject, Answer: Sendable>(
        on loop: any EventLoop,
        _ owner: Owner,
        _ answer: @escaping @Sendable (Owner, Answer, Number) -> Void
    ) -> @Sendable (Answer) -> Void {
        let (bound, number) = (NIOLoopBound(owner, eventLoop: loop), number)
        return { result in
            loop.execute { answer(bound.value, result, number) }
        }
    }

    mutating func keep(_ ticket: CredentialTicket) {
        if isWaiting { self.ticket = ticket }
    }

    /// Whether an answer belongs to the current wait.
    func isWaiting(_ number: Number) -> Bool { isWaiting && self.number == number }

    /// Tells the source that the request no longer waits. No effect if it does not wait. ``end(on:of:)`` follows.
    func cancel(at source: (any CredentialSource)?) {
        if let ticket { source?.cancel(ticket) }
    }

    /// Gives the place back.
    ///
    /// - Returns: Whether the request was waiting.
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
        // If the wait is longer than the call, the call has already ended.
        let sequel = waited < call ? "; the call goes on for up to \(call.components.seconds) s" : ""
        let detail = "No token came within \(ConfigUnits.text(waited)) (limits.credential_timeout)\(sequel)."
        return GatewayProblem(.tokenEndpointTimeout, detail, retryAfter: .seconds(1))
    }
}
