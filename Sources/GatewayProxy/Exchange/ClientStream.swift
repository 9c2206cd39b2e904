import GatewayHTTP
import Logging
import NIOCore

/// The form in which a body is passed from one connection to the other.
enum ContentForm {
    /// As it was received, with its framing, which both sides share.
    case wire
    /// Without framing, which the receiving side adds.
    case content
}

/// Why a head was not sent. No part of it was sent.
enum HeadFault: Error {
    case unwritable
    /// The client asks for a WebSocket in HTTP/2, where any 2xx opens one (RFC 9110 section 9.3.6), but the upstream has opened none.
    case opensNothing
}

/// The head of a request and its bytes. A stream reuses it for one request after the other.
final class RequestMessage {
    private(set) var decoder: RequestHeadDecoder
    private(set) var bytes: ByteBuffer
    /// The request arrived in HTTP/2, and the bytes were written for the decoder.
    let isHTTP2: Bool

    init(_ decoder: consuming RequestHeadDecoder, _ bytes: ByteBuffer, isHTTP2: Bool = false) {
        self.decoder = decoder
        self.bytes = bytes
        self.isHTTP2 = isHTTP2
    }

    /// Changes the limits, before the first byte of a head.
    func change(to decoder: consuming RequestHeadDecoder) { self.decoder = decoder }

    /// Reads the head that `input` begins with, and takes nothing but an empty line before it.
    @inline(__always)
    func decodeHead(_ input: inout ByteBuffer) -> RequestHeadDecoder.DecodeResult {
        let result = decoder.decode(input.readableBytesUInt8Span)
        if case .needMore = result { input.moveReaderIndex(forwardBy: decoder.takeEmptyLine()) }
        return result
    }

    /// Takes the bytes of the head that was just read.
    @inline(__always)
    func takeHead(from input: inout ByteBuffer, empty: ByteBuffer) {
        bytes = input.readSlice(length: decoder.head.end) ?? empty
    }

    /// Reads the fields of a request in HTTP/2, and keeps the bytes that were written for them.
    @inline(__always)
    func decode(
        _ fields: inout HTTP2FieldTable,
        hasContent: Bool,
        mustBeTLS: Bool,
        webSocketKey: () -> String
    ) throws(HTTP2Malformation) -> RequestHeadDecoder.DecodeResult {
        let result = try decoder.decode(
            &fields,
            hasContent: hasContent,
            mustBeTLS: mustBeTLS,
            webSocketKey: webSocketKey
        )
        if case .refused = result { return result }
        bytes.writeBytes(fields.bytes[..<fields.end])
        return result
    }

    /// Resets it for a request of another stream. Keeps its memory.
    func renew() {
        decoder.renew()
        bytes.clear()
    }

    /// Frees the memory of a head that is no longer needed.
    func drop(_ empty: ByteBuffer) {
        decoder.renew()
        bytes = empty
    }

    /// Prepares for the next request.
    @inline(__always)
    func reset(_ empty: ByteBuffer) {
        decoder.reset()
        bytes = empty
    }
}

/// The decision on a request that a stream has read.
extension RequestAuthorizer {
    func decide(
        _ request: RequestMessage,
        on connection: ConnectionContext,
        cache: inout ClientAuthenticationCache
    ) -> Decision {
        var trace: AuthorizationTrace?
        let bytes = request.bytes
        return decide(
            request.decoder.head,
            bytes.readableBytesUInt8Span,
            on: connection,
            cache: &cache,
            trace: &trace
        )
    }
}

/// The client's side of one exchange. It brings the request, and takes the response.
///
/// It knows its protocol and decides nothing. It ends its exchange with ``ExchangeDriver/clientLeft(isCut:)``, or is ended by
/// ``finish(requestIsComplete:)``, ``respond(with:as:requestIsComplete:)`` or ``cut(within:)``.
protocol ClientStream: AnyObject {
    // MARK: Request

    /// Stays the same until the exchange is over.
    var request: RequestMessage { get }
    /// The client's address as `Forwarded` names it; nil on a unix socket.
    var clientAddress: String? { get }
    /// The listener that accepted the connection, and the client's identity on it.
    var connectionContext: ConnectionContext { get }
    var isTLS: Bool { get }
    /// A part of the body was received that the exchange has not taken yet.
    var hasUnreadContent: Bool { get }
    /// Bytes in memory that no exchange has taken yet.
    var unreadBytes: Int { get }
    /// The exchange can take more of the request.
    func resumeRequest()
    /// The upstream connection that only its requests use (`connection_auth: true`).
    var privateConnection: PrivateConnection? { get }
    /// Keeps it as ``privateConnection``. It is closed with the client's connection.
    func use(_ connection: PrivateConnection)

    // MARK: Response

    /// The client can take more: the unsent bytes are below the high-water mark.
    var isWritable: Bool { get }
    /// Sends 100 (Continue) on behalf of the gateway.
    func sendContinue()
    /// Bytes that the client has not taken yet. Costs a system call.
    var untakenBytes: Int { get }
    func sendInformational(
        _ head: borrowing ResponseHead,
        _ bytes: ByteBuffer,
        by route: CredentialedRoute,
        _ options: ResponseFieldRules.Options,
        id: RequestID
    )
    /// - Returns: The form in which the body has to be passed.
    func sendHead(
        _ head: borrowing ResponseHead,
        _ bytes: ByteBuffer,
        by route: CredentialedRoute,
        _ options: ResponseFieldRules.Options,
        id: RequestID,
        tokenNote: String?,
        requestIsComplete: Bool
    ) throws(HeadFault) -> ContentForm
    /// Takes the first `count` bytes of `buffer` to be sent later, unless there are so many that ``sendContent(_:)`` is cheaper.
    ///
    /// - Returns: Whether they were taken.
    func stageContent(_ count: Int, of buffer: inout ByteBuffer) -> Bool
    func sendContent(_ bytes: ByteBuffer)
    /// - Parameter trailers: The trailers, including the empty line at their end; nil if there cannot be any.
    func sendEnd(trailers: ByteBuffer?)
    /// Writes everything that was sent so far.
    func flush()
    /// The response is complete.
    func finish(requestIsComplete: Bool)
    /// Responds with a problem of the gateway. No part of a final response was sent before.
    func respond(with problem: GatewayProblem, as subject: ProblemSubject, requestIsComplete: Bool)
    /// Ends the response so that the client notices that it is incomplete.
    ///
    /// - Parameter limit: How long the client has to take the bytes that were sent before; nil for as long as it takes some of them.
    func cut(within limit: TimeAmount?)

    // MARK: Tunnel

    /// What follows in both directions is not HTTP.
    func beginTunnel()
    /// The tunnel's upstream has closed its output; it may still read.
    func closeOutput()

    // MARK: Deadline

    /// When it passes, ``ExchangeDriver/deadlinePassed()`` is called. Each exchange has one deadline.
    func setDeadline(_ amount: TimeAmount)
    func clearDeadline()
}

/// What follows from these requirements for every stream.
extension ClientStream {
    /// ``clientAddress`` for the log: `unix` on a unix socket.
    var peer: String { clientAddress ?? (connectionContext.reach == .unix ? "unix" : "unknown") }
    /// The client believes that it talks to the upstream itself.
    var isIntercepted: Bool { connectionContext.intercepted != nil }
    /// The URL at which clients see the listener, if the configuration has one.
    var publicURL: GatewayURL? { connectionContext.publicURL }

    /// The private connection for this client's requests to this pool. If there is one to another pool or for another client, it is
    /// closed.
    func privateConnection(to pool: UpstreamPool, for client: String?) -> PrivateConnection {
        if let privateConnection, privateConnection.serves(pool, client) { return privateConnection }
        privateConnection?.close()
        let new = PrivateConnection(to: pool, for: client)
        use(new)
        return new
    }
}

// What HTTP/1 and HTTP/2 have in common.
extension ClientStream {
    /// Makes the exchange for a request that was admitted. It begins with ``ExchangeDriver/begin(at:)``.
    ///
    /// - Parameter route: nil for the matched route.
    func exchange(
        _ id: RequestID,
        _ admitted: consuming RequestAuthorizer.Admitted,
        by route: CredentialedRoute? = nil,
        under configuration: WorkerConfiguration,
        contentIsFramed: Bool,
        at now: MonotonicTime
    ) -> ExchangeDriver {
        let bytes = request.bytes
        return ExchangeDriver(
            id,
            request.decoder.head,
            bytes.readableBytesUInt8Span,
            admitted: admitted,
            by: route,
            client: self,
            configuration: configuration,
            contentIsFramed: contentIsFramed,
            at: now
        )
    }

    /// Reports a request for which no exchange begins.
    ///
    /// - Parameter isReset: Its stream is reset in HTTP/2, so it counts as one that got no response.
    /// - Returns: The ID of the request, which is new if `id` is nil.
    @discardableResult
    func observe(
        _ problem: GatewayProblem,
        _ refusal: RequestAuthorizer.Refusal? = nil,
        id: RequestID? = nil,
        under configuration: WorkerConfiguration,
        isReset: Bool = false
    ) -> RequestID {
        let id = id ?? configuration.nextRequestID()
        configuration.observe(problem, refusal, of: request, id: id, from: peer, isTLS: isTLS, isReset: isReset)
        return id
    }

    /// Records a refused request whose client gets a response.
    func refused(
        _ problem: GatewayProblem,
        _ refusal: RequestAuthorizer.Refusal?,
        id: RequestID?,
        under configuration: WorkerConfiguration
    ) -> ProblemSubject {
        let shared = configuration.shared
        return ProblemSubject(
            requestID: observe(problem, refusal, id: id, under: configuration),
            route: refusal?.route.map { shared.routes[$0] },
            disclosesNames: refusal?.disclosesNames ?? shared.authorizer.disclosesNames(to: nil, on: connectionContext)
        )
    }

    /// The response has more cookies than fit into it.
    func warnOfCookies(_ route: CompiledRoute, to shared: ProxyShared) {
        guard route.isFirstDroppedCookie() else { return }
        shared.logger.warning("\(CookiePolicy.warning(route: route.plan.name))")
    }
}

/// The deadline of a client's connection or stream. A client that takes what was written, however slowly, gets more time.
struct ClientDeadline {
    /// nil once it was given back, after which nothing sets it.
    private var timer: DeadlineTimer?
    private var watch = TransferWatch()

    init(queue: DeadlineQueue) { timer = DeadlineTimer(queue: queue) }
    init(_ timer: DeadlineTimer) { self.timer = timer }

    mutating func set(_ deadline: NIODeadline, for keeper: any DeadlineKeeper) {
        watch.reset()
        timer?.set(deadline, for: keeper)
    }

    /// Sets it without a new look, so that a client that has taken nothing since the last one is not given more time.
    func move(to deadline: NIODeadline, for keeper: any DeadlineKeeper) { timer?.set(deadline, for: keeper) }

    /// Moves it if the client has taken some of the written bytes.
    ///
    /// - Parameter untaken: Bytes that the client has not taken.
    /// - Returns: Whether it was moved.
    mutating func extend(to deadline: NIODeadline, for keeper: any DeadlineKeeper, untaken: Int) -> Bool {
        let now = TransferProgress(untakenByClient: untaken, untakenByUpstream: 0, responseSent: nil)
        guard watch.hasMoved(now, by: { last, now in now.clientTakes(since: last) }) else { return false }
        timer?.set(deadline, for: keeper)
        return true
    }

    /// Whether the client takes the written bytes, however slowly. If so, it has `amount` to take more.
    mutating func clientTakes(
        within amount: TimeAmount,
        from writer: SocketWriter,
        by clock: LoopClock,
        for keeper: any DeadlineKeeper
    ) -> Bool {
        extend(to: clock.now + amount, for: keeper, untaken: writer.untakenBytes())
    }

    func clear() { timer?.clear() }
    func cancel() { timer?.cancel() }

    /// Cancels it, and lets another stream use the timer.
    mutating func giveBack(to parts: SpareStreamParts) {
        if let timer = timer.take() { parts.giveBack(timer) }
    }
}

/// What a problem response names besides the problem.
struct ProblemSubject {
    var requestID: RequestID
    var route: CompiledRoute?
    /// The credential that the request chose, if it did.
    var credential: String?
    /// The client may see names from the configuration.
    var disclosesNames: Bool
}
