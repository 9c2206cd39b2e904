import NIOCore
import NIOSSL

/// One of the two connections of a ``ConnectTunnel``: passes what it reads to the other one, as fast as that takes it.
final class TunnelEnd: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    let writer = SocketWriter()
    /// TLS is not in the pipeline.
    private let hasDirectSocket: Bool
    private var context: ChannelHandlerContext?
    private var tunnel: ConnectTunnel?
    private var other: TunnelEnd?
    private var isWritable = true
    private var pendingRead = false
    /// The peer has closed its output.
    private(set) var inputHasEnded = false
    private var output = TunnelOutput.open
    /// Lost, closed, or to be closed.
    private(set) var isOver = false

    init(hasDirectSocket: Bool) { self.hasDirectSocket = hasDirectSocket }

    /// From now on bytes pass.
    func join(_ other: TunnelEnd, in tunnel: ConnectTunnel) {
        self.tunnel = tunnel
        self.other = other
        isWritable = context?.channel.isWritable ?? false
    }

    // MARK: Channel events

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        writer.open(context, hasDirectSocket: hasDirectSocket)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        writer.close()
    }

    func read(context: ChannelHandlerContext) {
        if wantsInput { context.read() } else { pendingRead = true }
    }

    /// A peer that is not read from is not heard to leave either, so one that is over is read from.
    private var wantsInput: Bool { isOver || (other?.isWritable ?? false) }

    func resumeReading() {
        guard pendingRead, wantsInput else { return }
        pendingRead = false
        writer.read()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { pass(unwrapInboundIn(data)) }

    func pass(_ bytes: ByteBuffer) {
        guard !isOver, let tunnel, let other else { return }
        tunnel.passed(bytes.readableBytes, from: self)
        other.writer.send(bytes)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        isWritable = context.channel.isWritable
        if isWritable { other?.resumeReading() }
        context.fireChannelWritabilityChanged()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .inputClosed? = event as? ChannelEvent { inputEnded() }
        context.fireUserInboundEventTriggered(event)
    }

    func channelInactive(context: ChannelHandlerContext) {
        // The library closes a connection whose output has ended, and does not say that the input has. An error is told before.
        let endedWell = output == .ended && !isOver
        if endedWell { inputEnded() }
        isOver = true
        isWritable = false
        let tunnel = leave()
        tunnel?.lost(self, isCut: !endedWell)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // A TLS close without close_notify may be a cut.
        if inputHasEnded, error as? NIOSSLError == .uncleanShutdown { return }
        if let tunnel { tunnel.cut() } else { cut() }
    }

    // MARK: Ends

    /// The peer sends no more, and may still read.
    func inputEnded() {
        guard !inputHasEnded else { return }
        inputHasEnded = true
        other?.endOutput()
        if output == .ended, context?.channel.isActive ?? false { close() }
    }

    private func endOutput() {
        guard output == .open else { return }
        output = .ending
        // Closing now would drop what has not been sent yet.
        writer.afterWrites { [self] in outputEnded() }
    }

    private func outputEnded() {
        output = .ended
        if inputHasEnded { close() } else { writer.closeOutput() }
    }

    private func close() {
        writer.closeConnection()
        if !hasDirectSocket { writer.closeAtOnce() }
    }

    /// Ends the connection so that the peer cannot take it for a normal end.
    func cut() {
        guard !isOver else { return }
        isOver = true
        _ = leave()
        writer.reset()
    }

    /// The tunnel and its ends hold each other.
    private func leave() -> ConnectTunnel? {
        other = nil
        return tunnel.take()
    }
}

/// Whether a tunnel still sends to one side, after what the other side has sent.
enum TunnelOutput {
    case open
    /// The other side has closed its output. Its last bytes are on their way.
    case ending
    /// This side was told that no more follows.
    case ended
}
