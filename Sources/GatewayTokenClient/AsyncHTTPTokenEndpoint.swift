import AsyncHTTPClient
package import GatewayHTTP
package import GatewayTokens
import NIOCore
import NIOHTTP1
import NIOHTTPCompression
import NIOSSL
import Synchronization

/// Sends token requests with async-http-client.
///
/// TLS 1.2 or later, verified; no redirects; no proxy but the one of the request, whatever the environment says. No compression is requested, but a
/// compressed response is decompressed: the server may send its tokens only once. Every request has a connection of its own: if
/// one were lost on an old connection, it would be unknown whether the server had processed it.
package final class AsyncHTTPTokenEndpoint: TokenEndpoint {
    package static let answerLimitBytes = 1 << 20

    /// Everything that a connection may bring, framing and TLS included.
    private static let connectionLimitBytes = 2 * answerLimitBytes

    private static let longestDeadline: Duration = .seconds(3600)

    private let clients: ClientsByProxy
    private let tls: TLSConfiguration
    private let userAgent: String

    /// - Parameters:
    ///   - version: Ends the `User-Agent`.
    ///   - connectTimeout: For TCP and TLS together; part of the deadline of each request.
    package convenience init(version: String, connectTimeout: Duration = .seconds(5)) {
        self.init(version: version, tls: Self.tls, connectTimeout: connectTimeout)
    }

    /// - Parameter extraTrustRoots: A PEM file of certificates that are trusted besides the system's.
    package convenience init(
        version: String,
        extraTrustRoots: String,
        connectTimeout: Duration = .seconds(5)
    ) throws(UnusableInput) {
        var tls = Self.tls
        tls.additionalTrustRoots = [.certificates(try Self.certificates(at: extraTrustRoots))]
        self.init(version: version, tls: tls, connectTimeout: connectTimeout)
    }

    private init(version: String, tls: TLSConfiguration, connectTimeout: Duration) {
        self.tls = tls
        var configuration = Self.configuration(tls, connectTimeout: connectTimeout)
        configuration.decompression = .enabled(limit: .size(Self.answerLimitBytes))
        configuration.http1_1ConnectionDebugInitializer = { channel in
            channel.eventLoop.submit {
                let limit = InboundLimit(bytes: Self.connectionLimitBytes)
                let pipeline = channel.pipeline.syncOperations
                try pipeline.addHandler(limit, position: .first)
                let decompressor = try pipeline.handler(type: NIOHTTPResponseDecompressor.self)
                try pipeline.addHandler(ContentCodingNames(), position: .before(decompressor))
                try pipeline.addHandler(TrailingDataFilter(), position: .after(decompressor))
            }
        }
        clients = ClientsByProxy(configuration)
        userAgent = "authgateway/\(version)"
    }

    /// How authorization servers are spoken to.
    static func configuration(_ tls: TLSConfiguration, connectTimeout: Duration) -> HTTPClient.Configuration {
        var configuration = HTTPClient.Configuration(tlsConfiguration: tls)
        configuration.redirectConfiguration = .disallow
        configuration.proxy = nil
        configuration.decompression = .disabled
        configuration.httpVersion = .http1Only
        configuration.timeout.connect = .nanoseconds(connectTimeout.wholeNanoseconds)
        configuration.maximumUsesPerConnection = 1
        configuration.connectionPool.retryConnectionEstablishment = false
        // An authorization server that hangs must not hold up another credential of the same server.
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 256
        return configuration
    }

    static var tls: TLSConfiguration {
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

    /// Call it once, when no request will follow.
    package func shutdown() async {
        await clients.shutdown()
    }

    package func send(
        _ request: TokenRequest,
        deadline: Duration
    ) async -> Result<TokenReply, TokenTransportFailure> {
        assert(request.issuedParameters.isEmpty, "A request is sent without its assertions.")
        guard let outgoing = outgoing(request) else {
            return .failure(TokenTransportFailure(.unsendable, mayHaveBeenProcessed: false))
        }
        let proxy = request.proxy?.parent(for: request.url.origin)
        guard let client = clients.client(through: proxy) else {
            let detail =
                "Token requests cannot go through the proxy \(proxy?.description ?? ""), because that is https."
            return .failure(TokenTransportFailure(.init(detail, .proxyUnreachable)))
        }
        let collector = AnswerCollector(limitBytes: Self.answerLimitBytes)
        let wait = max(.zero, min(deadline, Self.longestDeadline))
        let task = client.execute(
            request: outgoing,
            delegate: collector,
            deadline: .now() + .nanoseconds(wait.wholeNanoseconds)
        )
        return await withTaskCancellationHandler {
            do {
                return .success(try await task.get())
            } catch {
                let failure = TransportErrors.failure(
                    for: error,
                    requestWasSent: collector.requestWasSent,
                    codings: collector.codings,
                    through: proxy
                )
                return .failure(failure)
            }
        } onCancel: {
            task.cancel()
        }
    }

    /// nil when the request cannot be written, such as a field value with a line break.
    private func outgoing(_ request: TokenRequest) -> HTTPClient.Request? {
        var headers = HTTPHeaders()
        headers.add(name: "User-Agent", value: userAgent)
        headers.add(name: "Accept", value: "application/json")
        headers.add(name: "Accept-Encoding", value: "identity")
        for field in request.fields {
            guard FieldSyntax.isToken(field.name), field.value.withValue(FieldSyntax.isValue) else { return nil }
            field.value.withValue { headers.replaceOrAdd(name: field.name, value: $0) }
        }
        let body: HTTPClient.Body?
        switch request.body {
        case .none:
            body = nil
        case .form(let parameters):
            headers.replaceOrAdd(name: "Content-Type", value: "application/x-www-form-urlencoded")
            body = .bytes(FormEncoding.encode(parameters))
        case .content(let type, let content):
            headers.replaceOrAdd(name: "Content-Type", value: type)
            body = content.withValue { .string($0) }
        }
        let method = HTTPMethod(rawValue: request.method.rawValue)
        do {
            return try HTTPClient.Request(
                url: request.url.unrootedText,
                method: method,
                headers: headers,
                body: body,
                tlsConfiguration: try request.tls?.configuration(tls)
            )
        } catch {
            return nil
        }
    }
}

/// A client of the library for each proxy, because the library takes a proxy for all requests of a client.
private final class ClientsByProxy: Sendable {
    /// Each has no connection while it sends nothing. Only proxies whose login changes every few minutes reach this.
    private static let maximum = 64

    private struct State {
        var clients: [ParentProxy: HTTPClient] = [:]
        /// The one that was used last is at the end.
        var order: [ParentProxy] = []
    }

    private let direct: HTTPClient
    private let configuration: HTTPClient.Configuration
    private let state = Mutex(State())

    init(_ configuration: HTTPClient.Configuration) {
        self.configuration = configuration
        direct = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    /// - Returns: nil for a proxy that cannot be used.
    func client(through proxy: ParentProxy?) -> HTTPClient? {
        guard let proxy else { return direct }
        guard let setting = HTTPClient.Configuration.Proxy(proxy) else { return nil }
        var configuration = configuration
        configuration.proxy = setting
        let (client, oldest) = state.withLock { [configuration] state -> (HTTPClient, HTTPClient?) in
            state.order.removeAll { $0 == proxy }
            state.order.append(proxy)
            if let known = state.clients[proxy] { return (known, nil) }
            let oldest =
                state.order.count > Self.maximum ? state.clients.removeValue(forKey: state.order.removeFirst()) : nil
            let new = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
            state.clients[proxy] = new
            return (new, oldest)
        }
        if let oldest { Task { try? await oldest.shutdown() } }
        return client
    }

    func shutdown() async {
        let clients = state.withLock { state in
            defer { state = State() }
            return Array(state.clients.values)
        }
        // Fails only when it was shut down before.
        for client in clients + [direct] { try? await client.shutdown() }
    }
}

extension HTTPClient.Configuration.Proxy {
    /// - Returns: nil for a proxy that is https, which the library does not know.
    init?(_ proxy: ParentProxy) {
        guard proxy.origin.scheme == .http else { return nil }
        let login = proxy.login?.withValue { value -> HTTPClient.Authorization? in
            let parts = value.split(separator: " ", maxSplits: 1).map(String.init)
            guard parts.count == 2 else { return nil }
            return switch parts[0].lowercased() {
            case "basic": .basic(credentials: parts[1])
            case "bearer": .bearer(tokens: parts[1])
            default: nil
            }
        }
        // A login that cannot be sent must not be left out.
        if proxy.login != nil, login.flatMap(\.self) == nil { return nil }
        self = .server(host: proxy.origin.lookupName, port: proxy.origin.port, authorization: login.flatMap(\.self))
    }
}

extension ClientTLS {
    /// `common` with a certificate of our own.
    func configuration(_ common: TLSConfiguration) throws -> TLSConfiguration {
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
