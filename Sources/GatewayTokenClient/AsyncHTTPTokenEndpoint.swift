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
        let use: ClientsByProxy.Use
        switch clients.begin(through: proxy, to: request.url.origin) {
        case .success(let begun): use = begun
        case .failure(let obstacle): return .failure(TokenTransportFailure(.init(obstacle.detail, .proxyUnreachable)))
        }
        defer { clients.end(use) }
        let collector = AnswerCollector(limitBytes: Self.answerLimitBytes)
        let wait = max(.zero, min(deadline, Self.longestDeadline))
        let task = use.client.execute(
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

/// A client of the library for each proxy, because the library takes a proxy for all requests of a client; and for each server behind
/// it, because the library compares a certificate with the address that was dialled, too, which is the proxy's.
private final class ClientsByProxy: Sendable {
    /// Each has no connection while it sends nothing. Only proxies whose login changes every few minutes reach this.
    private static let maximum = 64

    struct Way: Hashable {
        let proxy: ParentProxy
        /// What its certificate must name; nil in clear text.
        let server: String?
    }

    /// A client that sends a request, and so is not shut down.
    struct Use {
        let client: HTTPClient
        /// nil without a proxy.
        let way: Way?
    }

    /// Why a proxy cannot be used.
    struct Obstacle: Error {
        let detail: String
    }

    private struct State {
        var clients: [Way: HTTPClient] = [:]
        /// How many requests each sends.
        var users: [Way: Int] = [:]
        /// The one that was used last is at the end.
        var order: [Way] = []

        mutating func begin(_ way: Way) {
            users[way, default: 0] += 1
            order.removeAll { $0 == way }
            order.append(way)
        }

        /// - Returns: What is left out.
        mutating func makeRoom() -> HTTPClient? {
            guard order.count > maximum, let oldest = order.firstIndex(where: { users[$0] == nil }) else { return nil }
            return clients.removeValue(forKey: order.remove(at: oldest))
        }
    }

    private let direct: HTTPClient
    private let configuration: HTTPClient.Configuration
    private let state = Mutex(State())

    init(_ configuration: HTTPClient.Configuration) {
        self.configuration = configuration
        direct = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    /// Call ``end(_:)`` once the request has been answered.
    func begin(through proxy: ParentProxy?, to server: Origin) -> Result<Use, Obstacle> {
        guard let proxy else { return .success(Use(client: direct, way: nil)) }
        guard let setting = HTTPClient.Configuration.Proxy(proxy) else {
            let detail = "Token requests cannot go through the proxy \(proxy), because that is https."
            return .failure(Obstacle(detail: detail))
        }
        let isEncrypted = server.scheme == .https
        guard !isEncrypted || !server.isAddress else {
            let detail =
                "Token requests to \(server) cannot go through the proxy \(proxy), because a certificate for an address"
                + " cannot be checked there: use the server's name, or name the address in no_proxy."
            return .failure(Obstacle(detail: detail))
        }
        let way = Way(proxy: proxy, server: isEncrypted ? server.host : nil)
        let (client, oldest) = state.withLock { [configuration] state -> (HTTPClient, HTTPClient?) in
            state.begin(way)
            if let known = state.clients[way] { return (known, nil) }
            var configuration = configuration
            configuration.proxy = setting
            if let name = way.server { configuration.require(PeerName(name)) }
            let new = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
            state.clients[way] = new
            return (new, state.makeRoom())
        }
        if let oldest { Task { try? await oldest.shutdown() } }
        return .success(Use(client: client, way: way))
    }

    func end(_ use: Use) {
        guard let way = use.way else { return }
        state.withLock { state in
            guard let users = state.users[way] else { return }
            state.users[way] = users > 1 ? users - 1 : nil
        }
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

/// The certificate is trusted and names another server.
struct ForeignCertificate: Error {}

extension HTTPClient.Configuration {
    /// Has connections fail before a request is sent where the certificate does not carry the name.
    mutating func require(_ name: PeerName) {
        let prepare = http1_1ConnectionDebugInitializer
        http1_1ConnectionDebugInitializer = { channel in
            let checked = channel.eventLoop.submit {
                let tls = try channel.pipeline.syncOperations.handler(type: NIOSSLClientHandler.self)
                guard let certificate = tls.peerCertificate, name.isNamed(by: certificate.alternatives) else {
                    channel.close(promise: nil)
                    throw ForeignCertificate()
                }
            }
            guard let prepare else { return checked }
            return checked.flatMap { prepare(channel) }
        }
    }
}

extension NIOSSLCertificate {
    fileprivate var alternatives: [PeerName.Alternative] {
        _subjectAlternativeNames().map { name in
            switch name.nameType {
            case .dnsName: .name(Array(name.contents))
            case .ipAddress: .address(Array(name.contents))
            default: .other
            }
        }
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
