package import GatewayHTTP
package import NIOCore
import NIOPosix
import NIOSSL
import NIOTLS

/// Connects to an upstream as the requests of a route do, TLS included, and sends nothing: a request could have effects.
package enum UpstreamProbe {
    /// - Parameters:
    ///   - route: Its upstream and TLS settings count.
    ///   - limit: For name, connection and handshake together.
    ///   - contexts: Those that were made already.
    package static func connect(
        _ route: RoutePlan,
        within limit: Duration,
        contexts: UpstreamTLSContexts = UpstreamTLSContexts(),
        sha256: @escaping @Sendable ([UInt8]) -> [UInt8],
        on loop: any EventLoop
    ) async -> EndpointOutcome {
        let target: UpstreamTarget
        do throws(ListenerError) {
            target = try UpstreamTarget(
                route,
                budget: ConnectionBudget(maximum: 1, clients: ClientNames([])),
                contexts: contexts,
                sha256: sha256
            )
        } catch {
            // Files that can be read are a matter of the configuration, and were looked at with it.
            return .failed(.handshake)
        }
        do {
            let way = Way(origin: target.origin, parent: target.parent, end: target.tunnelEnd)
            let (certificate, took) = try await shake(way, within: limit, on: loop) {
                try target.tlsContext.map { try target.tlsHandler($0) }
            }
            let end = certificate.map { UnixTime(seconds: Int64($0.notValidAfter)) }
            return .connected(took, certificateEnd: end)
        } catch {
            let cause = cause(of: error, target)
            guard case .certificate = cause else { return .failed(cause) }
            let way = Way(origin: target.origin, parent: target.parent, end: target.tunnelEnd)
            return .failed(.certificate(await certificate(way, target.serverName, within: limit, on: loop)))
        }
    }

    /// Where the connection of a probe leads.
    private struct Way {
        let origin: Origin
        let parent: ParentHop?
        /// What a tunnel of ``parent`` leads to.
        let end: Origin?

        /// What is dialled.
        var place: Origin { parent?.plan.origin ?? origin }
    }

    /// What a server shows whose certificate is not trusted. Nothing is sent over this connection.
    package static func certificate(
        of origin: Origin,
        _ serverName: String?,
        through proxy: ParentProxy? = nil,
        within limit: Duration,
        on loop: any EventLoop
    ) async -> SeenCertificate? {
        var parent: ParentHop?
        if let proxy {
            var contexts = UpstreamTLSContexts()
            do {
                parent = ParentHop(proxy, source: nil, context: try contexts.context(of: proxy))
            } catch {
                // Nothing is asked past the proxy.
                return nil
            }
        }
        let way = Way(origin: origin, parent: parent, end: parent == nil ? nil : origin)
        return await certificate(way, serverName, within: limit, on: loop)
    }

    private static func certificate(
        _ way: Way,
        _ serverName: String?,
        within limit: Duration,
        on loop: any EventLoop
    ) async -> SeenCertificate? {
        let seen = try? await shake(
            way,
            within: limit,
            on: loop,
            {
                var configuration = TLSConfiguration.makeClientConfiguration()
                configuration.certificateVerification = .none
                let context = try NIOSSLContext(configuration: configuration)
                return try NIOSSLClientHandler(context: context, serverHostname: serverName)
            }
        )
        return seen?.certificate.flatMap(SeenCertificate.init)
    }

    /// - Returns: The server's certificate, which is nil in clear text, and how long the connection and the handshake took.
    private static func shake(
        _ way: Way,
        within limit: Duration,
        on loop: any EventLoop,
        _ makeTLS: @escaping @Sendable () throws -> NIOSSLClientHandler?
    ) async throws -> Connected {
        let done = loop.makePromise(of: Connected.self)
        let start = NIODeadline.now()
        let overdue = loop.scheduleTask(in: TimeAmount(limit)) {
            done.fail(ChannelError.connectTimeout(TimeAmount(limit)))
        }
        defer { overdue.cancel() }
        loop.execute {
            OutgoingConnection.open(
                way.place.lookupName,
                way.place.port,
                by: UpstreamResolver(loop: loop),
                within: TimeAmount(limit),
                on: loop,
                prepare: { channel in
                    let tls = try makeTLS()
                    let end = start + TimeAmount(limit)
                    let waiter = HandshakeWaiter(done, isEncrypted: tls != nil, start: start, deadline: end)
                    try way.parent?.begin(channel, to: way.end, via: "")
                    if let tls {
                        try channel.pipeline.syncOperations.addHandler(tls, name: UpstreamTarget.tlsName)
                    }
                    try channel.pipeline.syncOperations.addHandler(waiter)
                }
            ) { result in
                switch result {
                case .success(let channel): done.futureResult.whenComplete { _ in channel.close(promise: nil) }
                case .failure(let failure):
                    if failure.isUnresolved, case ChannelError.connectTimeout = failure.cause {
                        done.fail(NameOverdue())
                    } else {
                        done.fail(failure.cause)
                    }
                }
            }
        }
        return try await done.futureResult.get()
    }

    /// The name server did not answer in time; the upstream was not dialled.
    fileprivate struct NameOverdue: Error {}

    fileprivate typealias Connected = (certificate: NIOSSLCertificate?, took: Duration)

    /// - Parameter target: Its proxy is at fault where it was not got past.
    private static func cause(of error: any Error, _ target: UpstreamTarget) -> EndpointOutcome.Cause {
        guard let parent = target.parent else { return cause(of: error) }
        return switch error {
        case let failure as ParentFailure: .proxy(failure.problem.detail)
        case is NameOverdue: .proxy(parent.unreachable(ChannelError.connectTimeout(.zero), isUnresolved: true).detail)
        case let error as NIOConnectionError: .proxy(parent.unreachable(error).detail)
        case ChannelError.connectTimeout: .proxy(parent.overdue(target.tunnelEnd).detail)
        default: cause(of: error)
        }
    }

    private static func cause(of error: any Error) -> EndpointOutcome.Cause {
        if let alert = TLSAlert(error) { return .alert(alert) }
        return switch error {
        case is NameOverdue: .nameOverdue
        case let error as PinMismatch: .wrongKey("\(error.seen)")
        default: cause(of: UpstreamFailure.problem(error, Origin(scheme: .https, host: "", port: 0)))
        }
    }

    private static func cause(of problem: GatewayProblem) -> EndpointOutcome.Cause {
        switch problem.kind {
        case .destinationProhibited: .nameProhibited
        case .overloaded: .exhausted
        default: problem.hopError.map { cause(of: $0) } ?? .refused
        }
    }

    /// Has no default: a new reason needs a decision here.
    private static func cause(of error: GatewayProblem.HopError) -> EndpointOutcome.Cause {
        switch error {
        case .nameNotResolved: .nameUnknown
        case .nameTimeout: .nameOverdue
        case .connectionTimeout, .handshakeTimeout, .responseTimeout, .tunnelTimeout: .overdue
        case .certificateRefused, .certificateExpired, .certificateNotYetValid, .certificateUntrusted,
            .certificateNamesOther, .certificateNotPinned:
            .certificate(nil)
        case .handshakeFailed: .handshake
        case .connectionRefused, .hostUnreachable, .connectionTerminated, .requestNotTaken, .responseNotTaken,
            .protocolError, .proxyUnreachable, .proxyRefused, .proxyLoginRefused:
            .refused
        }
    }
}

extension SeenCertificate {
    /// - Returns: nil for one that cannot be described.
    init?(_ certificate: NIOSSLCertificate) {
        let names = certificate._subjectAlternativeNames().compactMap { name -> String? in
            let bytes = Array(name.contents)
            return switch name.nameType {
            case .dnsName: String(decoding: bytes.prefix(255), as: UTF8.self)
            case .ipAddress: bytes.count == 4 ? bytes.map(String.init).joined(separator: ".") : nil
            default: nil
            }
        }
        self.init(
            names: names,
            start: UnixTime(seconds: Int64(certificate.notValidBefore)),
            end: UnixTime(seconds: Int64(certificate.notValidAfter))
        )
    }
}

/// Keeps the promise once the connection is there, with TLS once the handshake is over.
///
/// In TLS 1.3 the server decides about the client certificate after the client has completed its handshake, so its alert
/// is waited for.
private final class HandshakeWaiter: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    /// Long enough for the alert of a server nearby; the alert of one far away comes after about one round trip.
    private static let shortestWait = TimeAmount.milliseconds(100)

    private let done: EventLoopPromise<UpstreamProbe.Connected>
    private let isEncrypted: Bool
    private let start: NIODeadline
    private let deadline: NIODeadline
    /// What is said unless an alert comes.
    private var connected: UpstreamProbe.Connected?

    init(
        _ done: EventLoopPromise<UpstreamProbe.Connected>,
        isEncrypted: Bool,
        start: NIODeadline,
        deadline: NIODeadline
    ) {
        self.done = done
        self.isEncrypted = isEncrypted
        self.start = start
        self.deadline = deadline
    }

    func channelActive(context: ChannelHandlerContext) {
        if !isEncrypted { done.succeed((nil, Self.duration(.now() - start))) }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case TLSUserEvent.handshakeCompleted? = event as? TLSUserEvent else { return }
        let tls = context.pipeline.syncOperations.upstreamTLS
        let took = .now() - start
        let connected = (certificate: tls?.peerCertificate, took: Self.duration(took))
        self.connected = connected
        guard tls?.tlsVersion == .tlsv13 else { return done.succeed(connected) }
        // The name, the connection and the handshake took several round trips.
        let end = min(.now() + max(took, Self.shortestWait), deadline - .milliseconds(10))
        context.eventLoop.scheduleTask(deadline: end) { [done] in done.succeed(connected) }
    }

    private static func duration(_ amount: TimeAmount) -> Duration { .nanoseconds(amount.nanoseconds) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {}

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let connected, TLSAlert(error) == nil { done.succeed(connected) } else { done.fail(error) }
        context.close(promise: nil)
    }

    /// The promise is kept once; what comes later is not heard.
    func channelInactive(context: ChannelHandlerContext) {
        if let connected { done.succeed(connected) } else { done.fail(ChannelError.eof) }
    }
}
