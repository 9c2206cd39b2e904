import GatewayHTTP
import NIOCore

/// The upstream's side of one exchange, leased from an ``UpstreamPool``. It takes the request, and brings the response.
///
/// The lease ends once: with ``release(isReusable:)``, ``returnUnused()``, ``abandon(isCut:)`` or ``finishTunnel(_:)``, or because the
/// connection is lost.
protocol UpstreamStream: AnyObject {
    /// It has carried a request before, so the upstream may have closed it in the meantime.
    var isReused: Bool { get }
    /// The upstream can take more: the unsent bytes are below the high-water mark.
    var isWritable: Bool { get }
    /// Bytes that the upstream has not taken yet. Costs a system call.
    var untakenBytes: Int { get }
    /// Bytes in memory that wait to be sent.
    var heldBytes: Int { get }

    /// The form in which it takes a request body that arrives in chunks.
    var requestForm: ContentForm { get }
    /// The protocol lets the upstream say that it has not processed a request.
    var canRefuse: Bool { get }
    /// It can become the tunnel that the request asks for.
    var takesUpgrade: Bool { get }

    func begin(for exchange: ExchangeDriver, answersHead: Bool)

    // MARK: Request

    func sendHead(
        _ head: borrowing RequestHead,
        _ bytes: ByteBuffer,
        by writer: borrowing RequestWriter,
        end: RequestEnd
    ) throws(HeadFault)
    /// Sends the bytes of the request that an earlier stream could not send.
    ///
    /// - Parameter isChunked: Body without framing that follows is sent in chunks.
    func sendAgain(_ unsent: ByteBuffer, isChunked: Bool)
    func sendContent(_ bytes: ByteBuffer, as form: ContentForm)
    /// Ends a body that was sent without framing.
    ///
    /// - Parameter trailers: The trailers, including the empty line at their end.
    func sendEnd(trailers: ByteBuffer)
    /// Writes everything that was sent so far.
    func flush()
    /// Flushes, and calls `done` once the bytes were written, or may have been. It is never called if none of them was.
    func whenSent(_ done: @escaping () -> Void)
    /// After the connection was lost: the bytes of the request, if none of them was written; otherwise nil.
    func takeUnsent() -> ByteBuffer?

    // MARK: Response

    /// The client can take more.
    func resumeReading()
    /// Lets the exchange judge the part of an inspected body that was received (``ExchangeDriver/ResponseDecision/inspect``).
    func endInspection()
    /// Forwards the response that was held back.
    func passHeldResponse()
    /// - Parameter requestWasSent: The whole request was sent, so the connection can carry the next one.
    func dropHeldResponse(requestWasSent: Bool)

    // MARK: End

    func release(isReusable: Bool)
    /// No request was sent.
    func returnUnused()
    /// The exchange is over before its response is complete.
    ///
    /// - Parameter isCut: The client's connection was cut, so the upstream of a tunnel must not see a normal end.
    func abandon(isCut: Bool)

    // MARK: Tunnel

    var inputHasEnded: Bool { get }
    /// The tunnel's client has closed its output.
    func closeOutput()
    /// The client has closed the tunnel normally. Its last bytes are still to be sent.
    ///
    /// - Parameter whenEnded: Called once, when the connection has ended.
    func finishTunnel(_ whenEnded: @escaping () -> Void)
}
