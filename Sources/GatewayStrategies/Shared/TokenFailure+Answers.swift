import GatewayHTTP
import GatewayTokens

extension TokenFailure {
    /// An answer to a refresh that no authority is known to give.
    ///
    /// - Parameter authority: As a sentence begins: `Box`, `The authority`.
    init(suspect reply: TokenReply, from authority: String) {
        let code = OAuthErrorCode.allowListed(RefreshError.code(in: reply))
        self.init(
            .suspect,
            problem: GatewayProblem(
                .tokenTemporarilyUnavailable,
                "\(authority) answered the refresh with status \(reply.status) and no known error code: does a firewall, a"
                    + " proxy or a portal answer in its place? The refresh token is kept, and the gateway tries again.",
                cause: GatewayProblem.Cause(code: code, httpStatus: reply.status)
            )
        )
    }
}

extension TokenFailure {
    /// A refusal of a request that has worked before. Only a person can tell whether the login has ended or the configuration is
    /// wrong, so the text names both, the login first.
    ///
    /// - Parameters:
    ///   - what: What was refused, as a sentence begins.
    ///   - login: How to log in, with its full stop.
    ///   - otherwise: What to check in the configuration, with its full stop.
    static func loginLikely(
        _ kind: ProblemKind = .loginRequired,
        what: String,
        login: String,
        otherwise: String,
        cause: GatewayProblem.Cause?
    ) -> TokenFailure {
        let detail = "\(what): \(login) If that does not help, \(otherwise)"
        return TokenFailure(.loginLikely, problem: GatewayProblem(kind, detail, cause: cause))
    }
}

extension TokenFailure {
    /// An answer that says nothing about the credential: a later one may bring the token.
    ///
    /// - Parameters:
    ///   - authority: As a sentence begins: `Box`, `The authority`.
    ///   - code: An OAuth error code from the allow-list.
    ///   - wait: How long the authority wants to be left alone.
    static func transient(authority: String, status: Int, code: String? = nil, wait: Duration?) -> TokenFailure {
        TokenFailure(
            .transient(retryAfter: wait),
            problem: GatewayProblem(
                .tokenTemporarilyUnavailable,
                "\(authority) gives no token at the moment (status \(status)).",
                cause: GatewayProblem.Cause(code: code, httpStatus: status),
                retryAfter: wait
            )
        )
    }
}

extension TokenReply {
    /// `Retry-After` as seconds (fractions are seen in the field) or as a date (RFC 9110 §10.2.3).
    ///
    /// nil for anything else. Held at one hour: a typing error of the authority must not stop the gateway for a year.
    func retryAfter(at now: Moment) -> Duration? {
        guard let text = field("Retry-After")?.trimmed else { return nil }
        let wait: Duration
        if let date = UnixTime(httpDate: text) {
            wait = date - now.wall
        } else {
            let isNumber = text.utf8.allSatisfy { (0x30...0x39).contains($0) || $0 == UInt8(ascii: ".") }
            guard isNumber, let seconds = Double(text) else { return nil }
            wait = .milliseconds(Int64(min(seconds, 3600) * 1000))
        }
        return min(max(wait, .zero), .seconds(3600))
    }
}

extension String {
    fileprivate var trimmed: String {
        let isBlank = { (character: Character) in character == " " || character == "\t" }
        let start = drop(while: isBlank)
        guard let last = start.lastIndex(where: { !isBlank($0) }) else { return "" }
        return String(start[...last])
    }
}
