import GatewayCore

extension JSONValue {
    /// `NumericDate` (RFC 7519 §2), in whole seconds.
    static func time(_ time: UnixTime) -> JSONValue { .number(.init(Double(time.milliseconds / 1000))) }
}

extension GrantAttempt {
    /// `jti`: another one for every request of every attempt.
    var assertionID: String { "\(nonce)-\(answers)" }
}
