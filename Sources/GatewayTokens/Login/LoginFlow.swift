package import GatewayHTTP

/// How a person logs in for a credential: which page a browser opens, and what it means where the browser ends. Pure.
///
/// The caller opens the page, waits for the answer (a redirect to a listener, or a paste), and sends the request.
package protocol LoginFlow: Sendable {
    /// Where the authority sends the browser when the login is done.
    var redirect: LoginRedirect { get }

    /// The address of the page that the browser opens. Holds the attempt's state: it is for the person alone.
    func page(of attempt: LoginAttempt) -> String

    /// What the browser came back with. What is ``LoginStep/foreign(_:)`` leaves the attempt open; any other answer ends
    /// it, and whatever comes later is not its answer.
    func read(_ answer: LoginAnswer, of attempt: LoginAttempt, at now: Moment) -> LoginStep

    /// What the authority answered to ``LoginStep/exchange(_:)``.
    func interpret(_ reply: TokenReply, at now: Moment) -> Result<TokenSet, TokenFailure>
}

package enum LoginAnswer: Hashable, Sendable {
    /// The address that the browser was sent to, as a listener received it.
    case redirect(String)
    /// What a person copied: that address, or where an authority shows it the code alone.
    case pasted(String)

    package static let limitBytes = 16 << 10
}

package enum LoginStep: Hashable, Sendable {
    /// Ask the authority for the token.
    case exchange(TokenRequest)
    /// The answer held the token itself.
    case token(TokenSet)
    /// - Parameter reason: One fixed word, for the audit log.
    case refused(GatewayProblem, reason: String)
    /// The answer does not belong to this attempt. It is rejected (RFC 8252 §8.9), and the login keeps waiting for
    /// the right one.
    case foreign(LoginRefusal)

    package init(refusing refusal: LoginRefusal) {
        self = refusal.isForeign ? .foreign(refusal) : .refused(refusal.problem, reason: refusal.reason)
    }
}

/// One attempt to log in: what ties the browser's answer to the question. Used once, never stored, never logged.
package struct LoginAttempt: Hashable, Sendable {
    /// Comes back with the answer (RFC 6749 §10.12): 258 random bits.
    package let state: Secret
    /// Proves to the authority that the same program began the login and exchanges the code (RFC 7636 §4.1): 258
    /// random bits.
    package let verifier: Secret
    /// See ``GrantAttempt/nonce``.
    package let nonce: String
    /// As it stands in both requests, with the real port.
    package let redirectURI: String

    package init(redirectURI: String, random: inout some RandomNumberGenerator) {
        self.redirectURI = redirectURI
        state = Self.token(&random)
        verifier = Self.token(&random)
        nonce = Hexadecimal.random(bytes: 16, from: &random)
    }

    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    /// 43 characters, the fewest that a verifier may have.
    private static func token(_ random: inout some RandomNumberGenerator) -> Secret {
        let bytes = (0..<43).map { _ in alphabet[Int.random(in: 0..<64, using: &random)] }
        return Secret(String(decoding: bytes, as: UTF8.self))
    }
}
