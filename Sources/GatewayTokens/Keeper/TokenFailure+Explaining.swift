import GatewayHTTP

extension TokenFailure {
    /// What a call without an answer means to those who wait.
    package init(explaining failure: TokenTransportFailure, of request: TokenRequest, credential: String) {
        let kind: ProblemKind
        let detail: String
        switch failure.reason {
        case .connectTimeout, .responseTimeout:
            kind = .tokenEndpointTimeout
            detail = "The token endpoint of \(credential) did not answer in time."
        case .nameNotResolved:
            kind = .tokenEndpointUnreachable
            detail = "The host name of the token endpoint of \(credential) cannot be resolved."
        case .connectionRefused:
            kind = .tokenEndpointUnreachable
            detail = "The token endpoint of \(credential) refuses connections."
        case .tlsFailed:
            kind = .tokenEndpointUnreachable
            detail =
                failure.alert?.detail(of: "The token endpoint of \(credential)", owner: "the credential")
                ?? "No TLS connection to the token endpoint of \(credential): is its certificate trusted?"
        case .connectionLost:
            kind = .tokenEndpointUnreachable
            detail = "The connection to the token endpoint of \(credential) was lost."
        case .answerTooLarge:
            kind = .tokenEndpointUnreachable
            detail =
                "The token endpoint of \(credential) sent a response that is too large; the limit is 1 MiB after decompression."
        case .invalidAnswer:
            kind = .tokenEndpointUnreachable
            detail =
                failure.unreadableCoding.map { coding in
                    "The token endpoint of \(credential) sent a body in a content coding that cannot be read (\(coding)):"
                        + " it should answer without Content-Encoding, or with gzip."
                } ?? "The token endpoint of \(credential) sent a response that is not valid HTTP."
        case .unsendable:
            let detail = "The token request of \(credential) cannot be written as HTTP: does a value hold a line break?"
            self.init(.terminal, problem: GatewayProblem(.credentialMisconfigured, detail))
            return
        case .missingAssertion:
            let missing = failure.missingAssertion
            let reason = missing.map { "\($0.place): \($0.reason)" } ?? "it is not there"
            let detail = "The assertion of \(credential) cannot be read: \(reason)."
            self.init(
                .transient(retryAfter: nil),
                problem: GatewayProblem(.tokenTemporarilyUnavailable, detail)
            )
            return
        }
        let problem = GatewayProblem(kind, detail, hopError: failure.hopError, nextHop: request.nextHop)
        self.init(.transient(retryAfter: nil), problem: problem)
    }

    /// What a program without a token means to those who wait; nothing that it printed is repeated.
    init(explaining failure: ProgramFailure, of program: TokenProgram, credential: String) {
        let detail = "The program \(program.command.first ?? "") of \(credential) \(failure.message)."
        switch failure.reason {
        case .notFound:
            self.init(.terminal, problem: GatewayProblem(.credentialMisconfigured, detail))
        case .timedOut:
            self.init(.transient(retryAfter: nil), problem: GatewayProblem(.tokenEndpointTimeout, detail))
        case .notStarted, .outputTooLarge, .failed:
            self.init(.transient(retryAfter: nil), problem: GatewayProblem(.tokenTemporarilyUnavailable, detail))
        }
    }

    static func endless(credential: String) -> TokenFailure {
        let detail = "The authority of \(credential) led on for \(GrantAttempt.maximumSteps) answers without a token."
        return TokenFailure(
            .transient(retryAfter: nil),
            problem: GatewayProblem(.tokenTemporarilyUnavailable, detail)
        )
    }

    static func deadOnArrival(credential: String) -> TokenFailure {
        let detail = "The token that the authority issued for \(credential) has expired already; are both clocks right?"
        return TokenFailure(
            .transient(retryAfter: nil),
            problem: GatewayProblem(.tokenTemporarilyUnavailable, detail)
        )
    }
}

extension TokenTransportFailure {
    /// What `Proxy-Status` calls it; the next hop is the token endpoint.
    fileprivate var hopError: GatewayProblem.HopError? {
        switch reason {
        case .nameNotResolved: .nameNotResolved
        case .connectionRefused: .connectionRefused
        case .connectTimeout: .connectionTimeout
        case .tlsFailed: alert == nil ? .certificateRefused : .handshakeFailed
        case .responseTimeout: .responseTimeout
        case .connectionLost: .connectionTerminated
        case .answerTooLarge, .invalidAnswer: .protocolError
        case .unsendable, .missingAssertion: nil
        }
    }
}

extension TokenRequest {
    /// As `Proxy-Status` names it.
    var nextHop: String { url.origin.authority }
}
