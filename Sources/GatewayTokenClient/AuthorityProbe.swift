import AsyncHTTPClient
package import GatewayHTTP
import GatewayTokens
import NIOCore
import NIOHTTP1
import NIOSSL
import Synchronization

/// Asks an authorization server for nothing but its time, as token requests are sent: `HEAD /` without a credential.
package enum AuthorityProbe {
    package struct Answer: Hashable, Sendable {
        package let took: Duration
        /// nil in clear text.
        package let certificateEnd: UnixTime?
        /// The server's time, from its `Date` field; nil without one.
        package let date: UnixTime?
    }

    /// - Parameters:
    ///   - certificate: What a credential shows this authorization server.
    ///   - limit: For name, connection, handshake and answer together.
    package static func ask(
        _ origin: Origin,
        showing certificate: ClientTLS?,
        through proxy: ParentProxy? = nil,
        version: String,
        within limit: Duration
    ) async -> Result<Answer, EndpointOutcome.Cause> {
        let common = AsyncHTTPTokenEndpoint.tls
        guard let tls = try? certificate?.configuration(common) ?? common else { return .failure(.handshake) }
        var configuration = AsyncHTTPTokenEndpoint.configuration(tls, connectTimeout: limit)
        if let proxy {
            guard let setting = HTTPClient.Configuration.Proxy(proxy) else {
                return .failure(.proxy("Token requests cannot go through the proxy \(proxy)."))
            }
            configuration.proxy = setting
        }
        let end = CertificateEnd()
        configuration.http1_1ConnectionDebugInitializer = { channel in
            channel.eventLoop.submit { end.note(of: channel) }
        }
        if proxy != nil, origin.scheme == .https { configuration.require(PeerName(origin.host)) }
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        let answer = await ask(client, origin, end, version, through: proxy, within: limit)
        // Fails only when it was shut down before.
        try? await client.shutdown()
        return answer
    }

    private static func ask(
        _ client: HTTPClient,
        _ origin: Origin,
        _ end: CertificateEnd,
        _ version: String,
        through proxy: ParentProxy?,
        within limit: Duration
    ) async -> Result<Answer, EndpointOutcome.Cause> {
        var request = HTTPClientRequest(url: "\(origin)/")
        request.method = .HEAD
        request.headers.add(name: "User-Agent", value: "authgateway/\(version)")
        let clock = ContinuousClock()
        let start = clock.now
        do {
            let response = try await client.execute(request, timeout: .nanoseconds(limit.wholeNanoseconds))
            let date = response.headers.first(name: "Date").flatMap { UnixTime(httpDate: $0) }
            return .success(Answer(took: clock.now - start, certificateEnd: end.value, date: date))
        } catch {
            // Before or after: an answer is all that was wanted.
            let failure = TransportErrors.failure(for: error, requestWasSent: end.hasConnected, through: proxy)
            if let problem = failure.proxyProblem { return .failure(.proxy(problem.detail)) }
            return .failure(failure.alert.map { .alert($0) } ?? cause(of: failure.reason))
        }
    }

    private static func cause(of reason: TokenTransportFailure.Reason) -> EndpointOutcome.Cause {
        switch reason {
        case .nameNotResolved: .nameUnknown
        case .connectionRefused, .unsendable, .missingAssertion: .refused
        case .connectTimeout, .responseTimeout: .overdue
        case .tlsFailed: .certificate(nil)
        case .connectionLost, .answerTooLarge, .invalidAnswer: .noHTTP
        }
    }
}

/// What the server has shown, once there is a connection.
private final class CertificateEnd: Sendable {
    private struct State {
        var hasConnected = false
        var end: UnixTime?
    }

    private let state = Mutex(State())

    var hasConnected: Bool { state.withLock(\.hasConnected) }
    var value: UnixTime? { state.withLock(\.end) }

    func note(of channel: any Channel) {
        let tls = try? channel.pipeline.syncOperations.handler(type: NIOSSLClientHandler.self)
        let end = tls?.peerCertificate.map { UnixTime(seconds: Int64($0.notValidAfter)) }
        state.withLock { $0 = State(hasConnected: true, end: end) }
    }
}
