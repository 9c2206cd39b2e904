/// How long the token of a client must be.
package enum ClientTokenRule {
    package static let minimumBytes = 16

    /// - Parameter isReachable: A listener can be reached from other machines, where anybody can try tokens.
    /// - Returns: nil when the token is long enough.
    package static func finding(
        bytes: Int,
        isReachable: Bool
    ) -> (severity: ConfigDiagnostic.Severity, message: String)? {
        guard bytes < minimumBytes else { return nil }
        let place = isReachable ? ", and a listener is reachable from other machines" : ""
        let message =
            "the token has fewer than \(minimumBytes) bytes, so it could be guessed\(place); make one with "
            + "`openssl rand -hex 32`"
        return (isReachable ? .error : .warning, message)
    }
}
