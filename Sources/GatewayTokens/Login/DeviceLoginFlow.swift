package import GatewayHTTP

/// How a person logs in on another device (RFC 8628): types a short code on a page there, while this side asks for the token. Pure.
package protocol DeviceLoginFlow: Sendable {
    /// Asks for a code.
    func begin(nonce: String, at now: Moment) -> Result<TokenRequest, GatewayProblem>

    /// What the authority answered to that.
    func code(in reply: TokenReply, at now: Moment) -> Result<DeviceCode, GatewayProblem>

    /// Asks for the token.
    func poll(_ code: DeviceCode, nonce: String, at now: Moment) -> Result<TokenRequest, GatewayProblem>

    /// What the authority answered to that.
    func interpret(_ reply: TokenReply, at now: Moment) -> DeviceLoginStep
}

/// What an authority gave for a login on another device.
package struct DeviceCode: Hashable, Sendable {
    /// Proves that the token is asked for by the program that asked for the code.
    package let deviceCode: Secret
    /// What the person types.
    package let userCode: String
    /// Where.
    package let page: String
    package let lifetime: Duration
    package let interval: Duration

    package init(deviceCode: Secret, userCode: String, page: String, lifetime: Duration, interval: Duration) {
        self.deviceCode = deviceCode
        self.userCode = userCode
        self.page = page
        self.lifetime = lifetime
        self.interval = interval
    }
}

package enum DeviceLoginStep: Hashable, Sendable {
    /// The person is not done yet.
    case pending
    /// As ``pending``, and the gateway has asked too often.
    case slowDown
    /// The answer is of no use; a later one may be.
    case unclear(TokenFailure)
    case token(TokenSet)
    /// - Parameter reason: One fixed word, for the audit log.
    case refused(GatewayProblem, reason: String)
}
