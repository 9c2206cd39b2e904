import AsyncHTTPClient
package import GatewayHTTP
package import GatewayTokens
import NIOCore
import NIOHTTP1
import NIOHTTPCompression
import NIOSSL

/// Sends token requests with async-http-client.
///
/// TLS 1.2 or later, verified; no redirects; no proxy, whatever the environment says. No compression is requested, but a
/// compressed response is decompressed: the server may send its tokens only once. Every request has a connection of its own: if
/// one were lost on an old connection, it would be unknown whether the server had processed it.
package final class AsyncHTTPTokenEndpoint: TokenEndpoint {
    package static let answerLimitBytes = 1 << 20

    /// Everything that a connection may bring, framing and TLS included.
    private static let connectionLimitBytes = 2 * answerLimitBytes

    private static let longestDeadline: Duration = .seconds(3600)

    private let client: HTTPClient
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
        client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
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
        // Fails only when it was shut down before.
        try? await client.shutdown()
    }

    package func send(
        _ request: TokenRequest,
        deadline: Duration
    ) async -> Result<TokenReply, TokenTransportFailure> {
        assert(request.issuedParameters.isEmpty, "A request is sent without its assertions.")
        guard let outgoing = outgoing(request) else {
            return .failure(TokenTransportFailure(.unsendable, mayHaveBeenProcessed: false))
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
                    codings: collector.codings
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
