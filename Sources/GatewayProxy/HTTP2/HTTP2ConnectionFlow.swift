import GatewayCore

/// The windows of an HTTP/2 connection, and the streams that wait for the one to send in.
struct HTTP2ConnectionFlow {
    var sending = SendWindow()
    var receiving: ReceiveWindow
    /// Of a new stream, as the client's settings say.
    var initialSending = SendWindow.initial
    /// Of a new stream, as our settings say once the client has taken note of them.
    var initialReceiving = SendWindow.initial
    /// In the order of their turns.
    var waiting: [HTTP2ClientStream] = []
    /// Content that was written and not flushed.
    var unflushed = 0

    /// The library holds content until it is flushed, and sees no bound for it.
    static let maximumUnflushed = 196_608

    init(receiving target: Int) { receiving = ReceiveWindow(target: target, size: SendWindow.initial) }
}
