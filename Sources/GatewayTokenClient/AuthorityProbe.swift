package import GatewayHTTP
import GatewayTokens

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
        var request = OutgoingRequest("HEAD", origin, "/")
        (request.tls, request.proxy) = (certificate, proxy)
        let clock = ContinuousClock()
        let start = clock.now
        switch await OutgoingHTTP(version: version, connectTimeout: limit).ask(request, deadline: limit) {
        case .success(let answer):
            let date = answer.reply.field("Date").flatMap { UnixTime(httpDate: $0) }
            return .success(Answer(took: clock.now - start, certificateEnd: answer.certificateEnd, date: date))
        case .failure(let failure):
            if let problem = failure.proxyProblem { return .failure(.proxy(problem.detail)) }
            return .failure(failure.alert.map { .alert($0) } ?? cause(of: failure.reason))
        }
    }

    private static func cause(of reason: TokenTransportFailure.Reason) -> EndpointOutcome.Cause {
        switch reason {
        case .nameNotResolved: .nameUnknown
        case .connectionRefused, .missingAssertion: .refused
        // A certificate of ours that cannot be used.
        case .unsendable: .handshake
        case .connectTimeout, .responseTimeout: .overdue
        case .tlsFailed: .certificate(nil)
        case .connectionLost, .answerTooLarge, .invalidAnswer: .noHTTP
        }
    }
}
