import GatewayHTTP
import NIOCore

/// The upstream's side of one exchange, leased from an ``UpstreamPool``. It takes the request, and brings the response.
///
/// The lease ends once: with ``release(isReusable:)``, ``returnUnused()``, ``abandon(isCut:)`` or ``finishTunnel(_:)``, or because the
/// connection is lost.
protocol UpstreamStream: AnyObject {
    /// It has carried a request before, so that the upstream may have closed it meanwhile.
    var isReused: Bool { get }
    /// The upstream takes more: what is on its way to it is below the high-water mark.
    var isWritable: Bool { get }
    /// Bytes that the upstream has not taken. Costs a system call.
    var untakenBytes: Int { get }
    /// Bytes in memory that wait to be sent.
    var heldBytes: Int { get }

    /// How it takes content of a request that came in chunks.
    var requestForm: ContentForm { get }
    /// The upstream can say of a request that it has not looked at it.
    var canRefuse: Bool { get }
    /// It can become the tunnel that the request asks for.
    var takesUpgrade: Bool { get }

    func begin(for exchange: ExchangeDriver, answersHead: Bool)

    // MARK: Request

    /// - Parameter end: The last lines, the empty one included.
    func sendHead(
        _ head: borrowing RequestHead,
        _ bytes: ByteBuffer,
        by writer: borrowing RequestWriter,
        end: [UInt8]
    ) throws(HeadFault)
    /// Sends what the stream before this one could not send any of.
    ///
    /// - Parameter isChunked: Content without framing follows in chunks.
    func sendAgain(_ unsent: ByteBuffer, isChunked: Bool)
    func sendContent(_ bytes: ByteBuffer, as form: ContentForm)
    /// Ends content that was sent without framing.
    ///
    /// - Parameter trailers: With the empty line that ends them.
    func sendEnd(trailers: ByteBuffer)
    /// What was sent leaves now.
    func flush()
    /// Flushes, and calls `done` when what was sent has left or may have; never where it is known that nothing has.
    func whenSent(_ done: @escaping () -> Void)
    /// After the loss of the connection: the request as far as it was sent, where nothing of it has left.
    func takeUnsent() -> ByteBuffer?

    // MARK: Response

    /// The client takes more.
    func resumeReading()
    /// Has the exchange judge what has come of a body that it looks at (``ExchangeDriver/ResponseDecision/inspect``).
    func endInspection()
    /// Passes the response on that was held back.
    func passHeldResponse()
    /// - Parameter requestWasSent: All of it, so that the next request can follow.
    func dropHeldResponse(requestWasSent: Bool)

    // MARK: End

    func release(isReusable: Bool)
    /// No request was sent.
    func returnUnused()
    /// The exchange is over before its response is complete.
    ///
    /// - Parameter isCut: A tunnel must not pass the client's end on as an end.
    func abandon(isCut: Bool)

    // MARK: Tunnel

    var inputHasEnded: Bool { get }
    /// The client of a tunnel sends no more.
    func closeOutput()
    /// The client has left in good order. What it sent is still to be taken.
    ///
    /// - Parameter whenEnded: Called once, when the connection has ended.
    func finishTunnel(_ whenEnded: @escaping () -> Void)
}
