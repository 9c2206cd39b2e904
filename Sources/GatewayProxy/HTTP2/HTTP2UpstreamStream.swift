import GatewayCore
import NIOCore
import NIOHPACK
import NIOHTTP2

/// One request and its response on an ``HTTP2UpstreamConnection``.
///
/// Content waits here while the client takes none. The upstream may send more once the client has taken it, so the window of the stream
/// bounds what waits.
final class HTTP2UpstreamStream: UpstreamStream {
    enum Phase {
        case head
        case body
        /// A WebSocket: what follows is neither content nor trailers.
        case tunnel
        /// The response is held back until so much of its body has come as its exchange wants to see.
        case inspecting
        /// The response is held back until it is known whether the request can be sent again.
        case held
        case over
    }

    enum Arrival {
        case fields(HPACKHeaders, isLast: Bool)
        /// - Parameter size: As flow control counts it, with padding.
        case content(ByteBuffer, size: Int, isLast: Bool)
    }

    let connection: HTTP2UpstreamConnection
    let isReused: Bool
    /// nil before the head has left.
    var id: HTTP2StreamID?
    var exchange: ExchangeDriver?
    var phase = Phase.head
    // What is sent.
    var outgoing = HTTP2Outgoing()
    var sendWindow = SendWindow(0)
    /// Nothing more can be sent on it.
    var isClosed = false
    /// It is in the connection's queue of streams that wait for room.
    var waitsForRoom = false
    private var isFull = false
    // What is received.
    var answersHead = false
    var decoder: ResponseHeadDecoder
    var heldHead = ByteBuffer()
    var inspection = HTTP2UpstreamStream.newInspection
    var order = HTTP2ResponseOrder()
    var endsAsChunks = false
    var arrivals: [Arrival] = []
    /// The end of the response has come, and may be among ``arrivals``.
    var hasArrived = false
    /// The connection was lost while the response was held back, or the upstream has reset the stream.
    var isLost = false
    /// `Sec-WebSocket-Accept` for the client that asked for a WebSocket.
    var webSocketAccept: String?
    /// Of a tunnel: the upstream has ended both directions.
    var wantsNoMore = false
    /// The end of a tunnel whose client has left.
    var tunnelEnd: HTTP2TunnelEnd?
    var receiveWindow = ReceiveWindow(
        target: HTTP2UpstreamConnection.streamWindow,
        size: HTTP2UpstreamConnection.streamWindow
    )

    init(on connection: HTTP2UpstreamConnection, isReused: Bool) {
        self.connection = connection
        self.isReused = isReused
        decoder = ResponseHeadDecoder(
            maxBytes: connection.limits.headerBytes,
            maxFields: connection.limits.headerFields,
            isHTTP2: true
        )
    }

    // MARK: Request

    /// Maximum content of a request that waits for the windows; then the client is read no further.
    private static let maximumQueue = 65_536

    var requestForm: ContentForm { .content }
    var canRefuse: Bool { true }
    var takesUpgrade: Bool { connection.takesWebSocket }
    var isWritable: Bool { outgoing.count < Self.maximumQueue }
    /// What waits, and what the upstream has not made room for again.
    var untakenBytes: Int { outgoing.count + max(0, connection.peerStreamWindow - sendWindow.size) }

    var heldBytes: Int { outgoing.count }

    func begin(for exchange: ExchangeDriver, answersHead: Bool) {
        self.exchange = exchange
        self.answersHead = answersHead
        sendWindow = SendWindow(connection.peerStreamWindow)
    }

    func sendHead(
        _ head: borrowing RequestHead,
        _ bytes: ByteBuffer,
        by writer: RequestWriter,
        end: [UInt8]
    ) throws(HeadFault) {
        var written = connection.buffers.take()
        defer { connection.buffers.giveBack(written) }
        guard writer.write(head, bytes, end: end, into: &written) else { throw .unwritable }
        let translation = HTTP2RequestFields(head, bytes, by: writer.route, scheme: connection.scheme)
        let fields = try translation.read(written, within: connection.maximumFrame)
        guard !head.wantsUpgrade else { return try beginWebSocket(fields, head, bytes) }
        outgoing.begin(fields, head.framing)
    }

    /// A stream never has what an HTTP/1 connection could not send: the exchange writes the head anew.
    func sendAgain(_ unsent: ByteBuffer, isChunked: Bool) {}

    func sendContent(_ bytes: ByteBuffer, as form: ContentForm) {
        guard phase != .over else { return }
        outgoing.append(bytes)
        if !isWritable { flush() }
    }

    func sendEnd(trailers: ByteBuffer) {
        let fields = HTTP2RequestFields.read(trailers: trailers, within: connection.maximumFrame)
        outgoing.end(fields.isEmpty ? nil : fields)
    }

    func flush() {
        guard phase != .over else { return }
        connection.send(self)
    }

    func whenSent(_ done: @escaping () -> Void) {
        flush()
        if id != nil, phase != .over { done() }
    }

    func takeUnsent() -> ByteBuffer? { nil }

    /// Content has left, or was added.
    func contentMoved() {
        let wasFull = isFull
        isFull = !isWritable
        exchange?.uploadMoved()
        if wasFull, !isFull { exchange?.upstreamBecameWritable() }
        if phase == .tunnel { endTunnelIfOver() }
    }

    // MARK: End

    func release(isReusable: Bool) {
        exchange = nil
        // After an early response the rest of the request is not wanted.
        connection.end(self, outgoing.isEnded ? nil : .cancel)
    }

    func returnUnused() {
        exchange = nil
        connection.end(self, nil)
    }

    func abandon(isCut: Bool) {
        exchange = nil
        guard isCut || !leavesTunnelInOrder() else { return }
        if phase != .over, !order.hasHead, id != nil { connection.probe() }
        connection.end(self, hasArrived && outgoing.isEnded ? nil : .cancel)
    }

    /// The response breaks a rule.
    func fail(_ detail: String) {
        let exchange = exchange.take()
        connection.end(self, .protocolError)
        exchange?.upstreamBroke(detail)
    }

    /// The upstream has reset the stream, or the connection is lost.
    ///
    /// - Parameter isRefused: The upstream has not looked at the request.
    func lose(isRefused: Bool) {
        guard phase != .over else { return }
        guard phase != .tunnel else { return loseTunnel() }
        // A whole response that the client has not taken yet stays whole.
        guard !hasArrived || phase == .head else { return }
        guard phase != .held else { return isLost = true }
        let exchange = exchange.take()
        connection.end(self, nil)
        exchange?.upstreamLost(hasAnswered: order.hasHead, isRefused: isRefused, alert: connection.alert)
    }

    /// The upstream does not take the request in HTTP/2 (RFC 9113 section 7).
    func wantsHTTP1() {
        guard !order.hasHead, exchange?.goOnInHTTP1() ?? false else {
            return fail("It wants HTTP/1.1 for this request. Set protocol of the route to http1.")
        }
        lose(isRefused: true)
    }

    /// Throws away what waits.
    func drop() {
        phase = .over
        arrivals = []
        outgoing.drop()
        tunnelEnd.take()?.came()
    }
}
