import GatewayCore
import NIOCore

/// One request of an engine and its answer, as its connection carries them.
protocol EngineStream: AnyObject {
    /// The engine's own request.
    var request: RequestMessage { get }
    var identity: ConnectionContext { get }
    var peer: String { get }
    var isTLS: Bool { get }
    /// The request is a call of gRPC.
    var isCall: Bool { get }

    /// Sends a head without content.
    ///
    /// - Parameter write: Appends it, up to the fields of the connection and the empty line.
    func send(_ write: (inout ByteBuffer) -> Void)
    func send(_ problem: ProblemAnswer)

    /// When it passes, ``AuthorizationExchange/deadlinePassed()`` is called.
    func setDeadline(_ amount: TimeAmount)
    func clearDeadline()
}

/// A call of gRPC, whose message says which request it is about.
protocol CheckStream: EngineStream {
    /// Sends a message, with its prefix, and the status that the call went well.
    func send(message: ByteBuffer)
}
