import GatewayFiles
import GatewayHTTP
package import GatewayTokens

/// Fetches the assertions that are part of a request just before it is sent.
package struct AssertionEndpoint: TokenEndpoint {
    private static let limitBytes = 64 << 10

    let endpoint: any TokenEndpoint

    package init(endpoint: any TokenEndpoint) {
        self.endpoint = endpoint
    }

    package func send(_ request: TokenRequest, deadline: Duration) async -> Result<TokenReply, TokenTransportFailure> {
        guard !request.issuedParameters.isEmpty else { return await endpoint.send(request, deadline: deadline) }
        let clock = ContinuousClock()
        let end = clock.now + deadline
        var values: [Secret] = []
        for parameter in request.issuedParameters {
            do throws(MissingAssertion) {
                values.append(
                    try await assertion(
                        from: parameter.source,
                        through: request.proxy,
                        within: left(until: end, on: clock)
                    )
                )
            } catch {
                return .failure(TokenTransportFailure(error))
            }
        }
        return await endpoint.send(request.filled(with: values), deadline: left(until: end, on: clock))
    }

    private func left(until end: ContinuousClock.Instant, on clock: ContinuousClock) -> Duration {
        max(clock.now.duration(to: end), .milliseconds(1))
    }

    private func assertion(
        from source: AssertionSource,
        through proxy: ProxyRule?,
        within deadline: Duration
    ) async throws(MissingAssertion) -> Secret {
        switch source {
        case .file(let path):
            switch await OwnThread.run(within: deadline, { _ in Self.content(of: path) }) {
            case .failure: throw source.missing("it was not read in time")
            case .success(.failure(let failure)): throw source.missing(failure.message)
            case .success(.success(let content)): return try source.assertion(in: content)
            }
        case .service(let service):
            var request = service.request
            request.proxy = proxy
            switch await endpoint.send(request, deadline: deadline) {
            case .failure(let failure):
                let proxy = failure.proxyDetail.map { "; \($0)" } ?? ""
                throw source.missing("no answer came (\(failure.reason.rawValue)\(proxy))")
            case .success(let reply): return try source.assertion(in: reply)
            }
        }
    }

    /// Blocks. Such files are for others to read, too: those of Kubernetes have the mode 644.
    private static func content(of path: String) -> Result<[UInt8], BoundedFile.Failure> {
        Result { () throws(BoundedFile.Failure) in try BoundedFile.read(path, limit: limitBytes).bytes }
    }
}
