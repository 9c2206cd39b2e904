extension Limits {
    /// - Parameter length: Of the content, as far as it is known.
    /// - Returns: nil while the content is within `limits.request_body_bytes`.
    package func refusal(ofContent length: Int) -> GatewayProblem? {
        guard let maximum = requestBodyBytes, length > maximum else { return nil }
        let limit = "limits.request_body_bytes: \(ConfigUnits.text(bytes: maximum))"
        return GatewayProblem(.contentTooLarge, "The request was refused: body too long (\(limit)).")
    }
}

extension Stall {
    /// What the client is told.
    package func problem(responseTimeout: Duration) -> GatewayProblem {
        switch self {
        case .requestStopped: GatewayProblem(.requestTimeout, "The body of the request stopped coming.")
        case .clientStoppedReading: GatewayProblem(.requestTimeout, "The client stopped taking the response.")
        case .upstreamStoppedReading:
            GatewayProblem(.upstreamTimeout, "The upstream stopped taking the body of the request.")
        case .upstreamSilent:
            GatewayProblem(
                .upstreamTimeout,
                "The upstream did not answer within \(ConfigUnits.text(responseTimeout))."
            )
        }
    }
}
