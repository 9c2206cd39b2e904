package import GatewayHTTP
package import GatewayTokens
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization

/// Sends what the gateway asks on its own behalf: token requests, keys of issuers, telemetry.
///
/// HTTP/1.1, over TLS 1.2 or later, verified; no redirects; no proxy but the one of the request, whatever the environment says. No
/// compression is requested, but a compressed response is decompressed: the server may send its tokens only once. Every request has a
/// connection of its own: if one were lost on an old connection, it would be unknown whether the server had processed it.
package final class OutgoingHTTP: TokenEndpoint {
    /// The reply, and when the server's certificate expires; nil without TLS.
    typealias Answer = (reply: TokenReply, certificateEnd: UnixTime?)

    package static let answerLimitBytes = 1 << 20

    private static let longestDeadline: Duration = .seconds(3600)

    private let contexts: OutgoingTLSContexts
    private let userAgent: String
    private let connectTimeout: Duration

    /// - Parameters:
    ///   - version: The version in `User-Agent`.
    ///   - connectTimeout: For TCP, the tunnel of a proxy and TLS together; part of the deadline of each request.
    package init(version: String, connectTimeout: Duration = .seconds(5)) {
        contexts = OutgoingTLSContexts()
        userAgent = "authgateway/\(version)"
        self.connectTimeout = connectTimeout
    }

    /// - Parameter extraTrustRoots: A PEM file of certificates that are trusted besides the system's.
    package init(
        version: String,
        extraTrustRoots: String,
        connectTimeout: Duration = .seconds(5)
    ) throws(UnusableInput) {
        contexts = try OutgoingTLSContexts(extraTrustRoots: extraTrustRoots)
        userAgent = "authgateway/\(version)"
        self.connectTimeout = connectTimeout
    }

    package func send(
        _ request: TokenRequest,
        deadline: Duration
    ) async -> Result<TokenReply, TokenTransportFailure> {
        assert(request.issuedParameters.isEmpty, "A request is sent without its assertions.")
        return await send(OutgoingRequest(request), deadline: deadline)
    }

    package func send(
        _ request: OutgoingRequest,
        deadline: Duration
    ) async -> Result<TokenReply, TokenTransportFailure> {
        await ask(request, deadline: deadline).map(\.reply)
    }

    func ask(_ request: OutgoingRequest, deadline: Duration) async -> Result<Answer, TokenTransportFailure> {
        guard let head = request.head(userAgent: userAgent) else {
            return .failure(TokenTransportFailure(.unsendable, mayHaveBeenProcessed: false))
        }
        let security: OutgoingTLS
        do throws(TokenTransportFailure) {
            security = try contexts.security(of: request)
        } catch {
            return .failure(error)
        }
        let wait = max(.zero, min(deadline, Self.longestDeadline))
        let limit = TimeAmount(wait)
        let connecting = TimeAmount(min(connectTimeout, wait))
        let loop = MultiThreadedEventLoopGroup.singleton.any()
        let exchange = NIOLoopBoundBox.makeBoxSendingValue(
            OutgoingExchange(request, head, security, on: loop),
            eventLoop: loop
        )
        return await withTaskCancellationHandler {
            await withCheckedContinuation { done in
                loop.execute {
                    exchange.value.start(connectingWithin: connecting, within: limit) { done.resume(returning: $0) }
                }
            }
        } onCancel: {
            loop.execute { exchange.value.cancel() }
        }
    }
}

/// The TLS of one request: with its server, and with the proxy before that. Each is nil in clear text.
struct OutgoingTLS: Sendable {
    let server: NIOSSLContext?
    let proxy: NIOSSLContext?
}

/// The TLS contexts that are in use: making one reads all the certificates that the system trusts.
private final class OutgoingTLSContexts: Sendable {
    /// Client certificates that are in use at the same time; more only costs time.
    private static let maximum = 64

    private struct Key: Hashable {
        let certificate: ClientTLS?
        /// The library compares an address with the one that was dialled, which may be that of a proxy.
        let comparesName: Bool
    }

    private let common: TLSConfiguration
    private let known = Mutex<[Key: NIOSSLContext]>([:])

    init() { common = Self.common }

    init(extraTrustRoots path: String) throws(UnusableInput) {
        var common = Self.common
        common.additionalTrustRoots = [.certificates(try Self.certificates(at: path))]
        self.common = common
    }

    private static var common: TLSConfiguration {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        tls.certificateVerification = .fullVerification
        return tls
    }

    private static func certificates(at path: String) throws(UnusableInput) -> [NIOSSLCertificate] {
        let certificates: [NIOSSLCertificate]
        do {
            certificates = try NIOSSLCertificate.fromPEMFile(path)
        } catch {
            throw UnusableInput("\(path) cannot be read as PEM certificates")
        }
        guard !certificates.isEmpty else { throw UnusableInput("\(path) contains no certificate") }
        return certificates
    }

    func security(of request: OutgoingRequest) throws(TokenTransportFailure) -> OutgoingTLS {
        var server: NIOSSLContext?
        if request.origin.scheme == .https {
            let isComparedHere = request.proxy != nil && request.origin.isAddress
            server = context(Key(certificate: request.tls, comparesName: !isComparedHere))
            guard server != nil else { throw TokenTransportFailure(.unsendable, mayHaveBeenProcessed: false) }
        }
        guard let proxy = request.proxy, proxy.origin.scheme == .https else {
            return OutgoingTLS(server: server, proxy: nil)
        }
        guard let context = context(of: proxy) else {
            let detail = "The proxy \(proxy) is not asked: the file of \"ca\" of proxy cannot be used."
            throw TokenTransportFailure(.init(detail, .proxyUnreachable), reason: .tlsFailed)
        }
        return OutgoingTLS(server: server, proxy: context)
    }

    /// - Returns: nil when the certificate cannot be used.
    private func context(_ key: Key) -> NIOSSLContext? {
        if let context = known.withLock({ $0[key] }) { return context }
        guard var configuration = try? key.certificate?.configuration(common) ?? common else { return nil }
        if !key.comparesName { configuration.certificateVerification = .noHostnameVerification }
        guard let context = try? NIOSSLContext(configuration: configuration) else { return nil }
        known.withLock { known in
            if known.count >= Self.maximum { known = [:] }
            known[key] = context
        }
        return context
    }

    /// Made for each connection where the proxy has authorities of its own: the file may be replaced on disk.
    private func context(of proxy: ParentProxy) -> NIOSSLContext? {
        guard let path = proxy.caPath else { return context(Key(certificate: nil, comparesName: true)) }
        var configuration = common
        configuration.trustRoots = .file(path)
        return try? NIOSSLContext(configuration: configuration)
    }
}

extension ClientTLS {
    /// `common` with a certificate of our own.
    fileprivate func configuration(_ common: TLSConfiguration) throws -> TLSConfiguration {
        var configuration = common
        configuration.certificateChain = try NIOSSLCertificate.fromPEMBytes(Array(certificates.utf8)).map {
            .certificate($0)
        }
        let key = privateKey.text.withValue { Base64.decodeURL($0) } ?? []
        configuration.privateKey = .privateKey(try NIOSSLPrivateKey(bytes: key, format: .der))
        if let authorities {
            configuration.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(authorities.utf8)))
        }
        return configuration
    }
}
