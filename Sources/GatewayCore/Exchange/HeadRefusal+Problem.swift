extension HeadRefusal {
    /// - Parameter subject: What was refused, for example `The request was`.
    package func problem(_ subject: String, under limits: Limits) -> GatewayProblem {
        GatewayProblem(kind, "\(subject) refused: \(rawValue)\(addition(limits)).")
    }

    /// The limit that was reached, so that a person can keep to it or raise it; or what to do instead.
    private func addition(_ limits: Limits) -> String {
        switch self {
        case .targetTooLong, .headTooLarge: " (limits.header_bytes: \(ConfigUnits.text(bytes: limits.headerBytes)))"
        case .tooManyFields: " (limits.header_fields: \(limits.headerFields))"
        case .tooManyNominated: " (\(ConnectionOptions.maximumNominated) at most)"
        case .methodRefused: " (TRACE is not passed on)"
        default: ""
        }
    }
}
