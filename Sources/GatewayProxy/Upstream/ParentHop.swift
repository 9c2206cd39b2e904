import GatewayHTTP
import GatewayTokens
import NIOCore
import NIOSSL
import NIOTLS

/// A ``ParentProxy`` as connections use it: with its TLS context, and the lock of the credential that it is sent.
final class ParentHop: Sendable {
    /// What tells two of them apart.
    struct Key: Hashable {
        let plan: ParentProxy
        /// A reload may replace the source of a credential that has the same value.
        private let source: ObjectIdentifier?

        init(_ plan: ParentProxy, _ source: FixedCredentialSource?) {
            self.plan = plan
            self.source = source.map { ObjectIdentifier($0) }
        }
    }

    /// What a proxy is sent, from where. A reload may replace the source of a credential that has the same value.
    struct Login: Hashable {
        private let value: Secret
        private let source: ObjectIdentifier?

        fileprivate init?(_ plan: ParentProxy, _ source: FixedCredentialSource?) {
            guard let value = plan.login else { return nil }
            self.value = value
            self.source = source.map { ObjectIdentifier($0) }
        }
    }

    let plan: ParentProxy
    /// The credential that is sent to the proxy; nil without.
    let source: FixedCredentialSource?
    /// nil for a proxy that is http.
    private let context: NIOSSLContext?

    /// - Parameter context: For a proxy that is https.
    init(_ plan: ParentProxy, source: FixedCredentialSource?, context: NIOSSLContext?) {
        (self.plan, self.source, self.context) = (plan, source, context)
    }

    var isEncrypted: Bool { context != nil }

    /// nil where it is sent none.
    var login: Login? { Login(plan, source) }

    /// Why nothing may be sent to it now.
    var lockedProblem: GatewayProblem? {
        source.flatMap { $0.isLocked ? GatewayProblem.locked($0.name) : nil }
    }

    /// The problem after a reload has replaced its login.
    var replaced: GatewayProblem {
        Self.problem(
            .upstreamUnreachable,
            "A reload has replaced the login for the proxy \(plan); send the request again.",
            .proxyUnreachable
        )
    }

    /// Puts what speaks to the proxy into the pipeline of a new connection, nearest to the socket.
    ///
    /// - Parameters:
    ///   - server: What the tunnel leads to; nil where requests are sent to the proxy itself.
    ///   - via: The value of `Via`, by which a chain of gateways that ends at its beginning is noticed.
    func begin(_ channel: any Channel, to server: Origin?, via: String) throws {
        // The lookup of its name may have taken a while.
        if let problem = lockedProblem { throw ParentFailure(problem: problem) }
        let pipeline = channel.pipeline.syncOperations
        if let context {
            let name = plan.origin.isAddress ? nil : plan.origin.host
            try pipeline.addHandler(UpstreamTarget.tlsHandler(context, named: name))
        }
        // Without both, the proxy is asked for nothing before the first request.
        guard server != nil || isEncrypted else { return }
        try pipeline.addHandler(ParentHandshake(self, to: server, via: via))
    }
}

/// What went wrong at the proxy, or on the way to it.
struct ParentFailure: Error {
    let problem: GatewayProblem
}

/// The problems of a proxy. Each names it, and none its login.
extension ParentHop {
    /// - Parameter error: Of the connection to the proxy itself.
    func unreachable(_ error: any Error, isUnresolved: Bool = false, certificate: NIOSSLCertificate? = nil)
        -> GatewayProblem
    {
        if let problem = lockedProblem { return problem }
        if let failure = error as? ParentFailure { return failure.problem }
        let problem = UpstreamFailure.problem(
            error,
            plan.origin,
            isUnresolved: isUnresolved,
            certificate: certificate,
            authorities: plan.caPath,
            key: "ca of proxy"
        )
        // That nothing is left for this process is not the proxy's fault.
        guard problem.kind != .overloaded else { return problem }
        return Self.problem(
            problem.kind,
            "The proxy \(plan) cannot be reached: \(problem.detail)",
            .proxyUnreachable
        )
    }

    /// - Returns: nil for an answer that opens the tunnel, or has not come as a whole.
    fileprivate func problem(of answer: ConnectAnswer.State, to server: Origin) -> GatewayProblem? {
        plan.problem(of: answer, to: server)
            .map { problem($0, answer == .refused(status: 504) ? .upstreamTimeout : .upstreamUnreachable) }
    }

    var loginProblem: GatewayProblem { problem(plan.loginProblem()) }

    /// The proxy spoke before it was asked.
    fileprivate var early: GatewayProblem { problem(plan.invalidAnswer("before it was sent")) }

    fileprivate var lost: GatewayProblem { lockedProblem ?? problem(plan.lost) }

    private func problem(_ problem: ProxyProblem, _ kind: ProblemKind = .upstreamUnreachable) -> GatewayProblem {
        Self.problem(kind, problem.detail, problem.error)
    }

    func overdue(_ server: Origin?) -> GatewayProblem {
        let what =
            server.map { "open a tunnel to \($0.hostAndPort)" }
            ?? (isEncrypted ? "finish the TLS handshake" : "accept a connection")
        return Self.problem(
            .upstreamTimeout,
            "The proxy \(plan) did not \(what) in time.",
            .proxyUnreachable
        )
    }

    private static func problem(
        _ kind: ProblemKind,
        _ detail: String,
        _ error: GatewayProblem.HopError
    ) -> GatewayProblem {
        GatewayProblem(kind, detail, hopError: error)
    }
}

/// What requests to an http server carry beyond their own, where they are sent to a proxy (RFC 9112 section 3.2.2).
final class AbsoluteForm: Sendable {
    /// `http://api.example.com`, which stands before the path.
    let prefix: [UInt8]
    /// `Proxy-Authorization` with its CRLF, or nothing.
    let loginLine: SecretBytes

    init(_ server: Origin, through parent: ParentHop) {
        prefix = Array(server.description.utf8)
        loginLine = parent.plan.loginLine
    }

    var count: Int { prefix.count + loginLine.count }
}

/// Has a proxy open a tunnel, and then leaves the pipeline to what is spoken inside it.
///
///     (TLS to the proxy) ──▶ asked ──▶ open
///                       └──────┴─────▶ failed
///
/// Until then the handlers behind it do not learn that the connection is active: a TLS handshake would begin too early.
final class ParentHandshake: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private enum Phase {
        /// The connection, or the TLS handshake with the proxy, is under way.
        case waiting
        case asked
        case open
        case failed
    }

    private let parent: ParentHop
    /// nil where there is no tunnel, and the proxy only has to be known.
    private let server: Origin?
    private let via: String
    /// Gets what has come behind the answer of the proxy, which is then not passed on.
    private var opened: ((Result<ByteBuffer, GatewayProblem>) -> Void)?
    private var phase = Phase.waiting
    private var answer = ConnectAnswer()

    fileprivate init(_ parent: ParentHop, to server: Origin?, via: String) {
        self.parent = parent
        self.server = server
        self.via = via
    }

    /// - Parameter done: Called once, unless the tunnel was opened before. For a handler that cannot take bytes yet.
    func whenOpen(_ done: @escaping (Result<ByteBuffer, GatewayProblem>) -> Void) {
        guard phase != .failed else { return done(.failure(parent.lost)) }
        opened = done
    }

    /// - Returns: What is said if the connection that is being opened takes too long; nil where the proxy has done its part.
    static func overdue(on channel: (any Channel)?) -> GatewayProblem? {
        let handshake = try? channel?.pipeline.syncOperations.handler(type: ParentHandshake.self)
        return handshake.map { $0.parent.overdue($0.server) }
    }

    func channelActive(context: ChannelHandlerContext) {
        if !parent.isEncrypted { ask(context) }
        // A handler behind this one may hold reads back until its peer is known.
        context.read()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        // With half-closure the connection stays, and nothing more comes.
        if case .inputClosed? = event as? ChannelEvent, phase == .waiting || phase == .asked {
            return fail(context, parent.lost)
        }
        guard case .handshakeCompleted? = event as? TLSUserEvent, phase == .waiting else {
            return context.fireUserInboundEventTriggered(event)
        }
        guard server == nil else { return ask(context) }
        // Requests go to the proxy, so this handshake is the one that is waited for.
        phase = .open
        context.fireChannelActive()
        context.fireUserInboundEventTriggered(event)
        leave(context)
    }

    private func ask(_ context: ChannelHandlerContext) {
        guard phase == .waiting, let server else { return }
        phase = .asked
        let head = context.channel.allocator.buffer(bytes: parent.plan.connectHead(to: server, via: via))
        context.writeAndFlush(wrapOutboundOut(head), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch phase {
        case .open: context.fireChannelRead(data)
        case .failed: break
        case .waiting: fail(context, parent.early)
        case .asked:
            let state = answer.receive(unwrapInboundIn(data).readableBytesView)
            if let problem = parent.problem(of: state, to: server ?? parent.plan.origin) {
                return fail(context, problem)
            }
            if case .open(let rest) = state { open(context, context.channel.allocator.buffer(bytes: rest)) }
        }
    }

    /// - Parameter rest: What has come from the server already.
    private func open(_ context: ChannelHandlerContext, _ rest: ByteBuffer) {
        phase = .open
        if let opened = opened.take() {
            opened(.success(rest))
        } else {
            context.fireChannelActive()
            if rest.readableBytes > 0 { context.fireChannelRead(NIOAny(rest)) }
        }
        leave(context)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        switch phase {
        case .waiting, .asked: context.read()
        case .open, .failed: context.fireChannelReadComplete()
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard phase == .waiting || phase == .asked else { return context.fireErrorCaught(error) }
        let certificate = parent.isEncrypted ? try? context.pipeline.syncOperations.nioSSL_peerCertificate() : nil
        fail(context, parent.unreachable(error, certificate: certificate))
    }

    func channelInactive(context: ChannelHandlerContext) {
        if phase == .waiting || phase == .asked { fail(context, parent.lost) }
        context.fireChannelInactive()
    }

    private func fail(_ context: ChannelHandlerContext, _ problem: GatewayProblem) {
        phase = .failed
        answer = ConnectAnswer()
        let failure = ParentFailure(problem: problem)
        opened.take()?(.failure(problem))
        context.fireErrorCaught(failure)
        context.close(promise: nil)
    }

    private func leave(_ context: ChannelHandlerContext) {
        guard context.channel.isActive else { return }
        context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
    }
}
