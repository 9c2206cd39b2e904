package import GatewayHTTP

/// How a person logs in for a credential: which page a browser opens, and what it means where the browser ends. Pure.
///
/// The caller opens the page, waits for the answer (a redirect to a listener, or a paste), and sends the request.
package protocol LoginFlow: Sendable {
    /// Where the authorization server sends the browser when the login is done.
    var redirect: LoginRedirect { get }

    /// The address of the page that the browser opens. Holds the attempt's state: it is for the person alone.
    func page(of attempt: LoginAttempt) -> String

    /// What the browser came back with. What is ``LoginStep/foreign(_:)`` leaves the attempt open; any other answer ends
    /// it, and whatever comes later is not its answer.
    func read(_ answer: LoginAnswer, of attempt: LoginAttempt, at now: Moment) -> LoginStep

    /// What the authorization server answered to ``LoginStep/exchange(_:)``.
    func interpret(_ reply: TokenReply, at now: Moment) -> Result<TokenSet, TokenFailure>

    /// The scopes that the login asks for; nil where a person cannot choose them.
    var requestedScopes: [String]? { get }

    /// The same login, asking for these scopes as well. Its token keeps them: see ``TokenSet/addedScopes``.
    func asking(alsoFor scopes: [String]) -> any LoginFlow
}

extension LoginFlow {
    package var requestedScopes: [String]? { nil }
    package func asking(alsoFor scopes: [String]) -> any LoginFlow { self }
}

package enum LoginAnswer: Hashable, Sendable {
    /// The address that the browser was sent to, as a listener received it.
    case redirect(String)
    /// What a person copied: that address, or where an authorization server shows it the code alone.
    case pasted(String)

    package static let limitBytes = 16 << 10
}

package enum LoginStep: Hashable, Sendable {
    /// Ask the authorization server for the token.
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
    /// Proves to the authorization server that the same program began the login and exchanges the code (RFC 7636 §4.1): 258
    /// random bits.
    package let verifier: Secret
    /// See ``GrantAttempt/nonce``.
    package let nonce: String
    /// The `redirect_uri` of both requests, with the real port.
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

/// The query of the address that a browser ended on, read strictly.
package struct LoginParameters: Sendable {
    private let values: [String: String]

    /// Reads what stands behind `expected` in `address`; a fragment is left out.
    ///
    /// An expected address without a path is the same with a slash, which browsers add (RFC 3986 §6.2.3).
    package init(_ address: String, expecting expected: String) throws(LoginRefusal) {
        guard address.utf8.count <= LoginAnswer.limitBytes, address.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw .unreadable
        }
        let address = address.prefix { $0 != "#" }
        let hasQuery = expected.contains("?")
        for start in Self.spellings(of: expected) where address.hasPrefix(start) {
            let rest = address.dropFirst(start.count)
            guard rest.isEmpty || rest.first == (hasQuery ? "&" : "?") else { continue }
            self = try LoginParameters(query: rest.dropFirst())
            return
        }
        throw .elsewhere(expected: expected)
    }

    private static func spellings(of expected: String) -> [String] {
        guard let separator = expected.firstRange(of: "://"),
            !expected[separator.upperBound...].contains(where: { $0 == "/" || $0 == "?" })
        else { return [expected] }
        return [expected, expected + "/"]
    }

    /// - Throws: When an escape is broken, or a name stands there twice (RFC 6749 §3.1).
    package init(query: some StringProtocol) throws(LoginRefusal) {
        var values: [String: String] = [:]
        for pair in query.utf8.split(separator: UInt8(ascii: "&")) {
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            let value = parts.count == 2 ? FormEncoding.decode(parts[1]) : ""
            guard let name = FormEncoding.decode(parts[0]), let value else { throw .unreadable }
            guard values.updateValue(value, forKey: name) == nil else { throw .unreadable }
        }
        self.values = values
    }

    /// nil when it is missing or empty.
    package subscript(name: String) -> String? { values[name].flatMap { $0.isEmpty ? nil : $0 } }
}

/// Why what the browser came back with is not the answer to the login that was begun.
package enum LoginRefusal: Error, Hashable, Sendable {
    /// Neither an address nor a code.
    case unreadable
    /// An address, but not the one that the authorization server was told to send the browser to.
    case elsewhere(expected: String)
    case wrongState
    case missingState
    case wrongIssuer
    /// The authorization server's `error`, from the allow-list.
    case denied(String)
    /// Neither a code nor an error.
    case incomplete(missing: String)
    /// A code alone, where only the whole address shows that it answers this login.
    case addressNeeded

    package var problem: GatewayProblem {
        GatewayProblem(.loginFailed, "\(words) Nothing was changed; begin a new login.", cause: cause)
    }

    /// Not an answer to this login at all, so that the right one may yet come: any page can send a browser somewhere.
    var isForeign: Bool {
        switch self {
        case .wrongState, .missingState, .unreadable: true
        case .elsewhere, .wrongIssuer, .denied, .incomplete, .addressNeeded: false
        }
    }

    /// For the audit log.
    package var reason: String {
        switch self {
        case .unreadable: "unreadable"
        case .elsewhere: "other_address"
        case .wrongState, .missingState: "wrong_state"
        case .wrongIssuer: "wrong_issuer"
        case .denied: "denied"
        case .incomplete: "incomplete"
        case .addressNeeded: "address_needed"
        }
    }

    private var cause: GatewayProblem.Cause? {
        if case .denied(let code) = self { GatewayProblem.Cause(code: code) } else { nil }
    }

    /// What happened, without what to do.
    package var words: String {
        switch self {
        case .unreadable:
            "This is neither the address where the browser ended up nor a code."
        case .elsewhere(let expected):
            "The browser ended up at a different address than expected: it must begin with \(expected)."
        case .wrongState:
            "The response does not belong to the login that was started here (wrong state): it is from an earlier attempt, or"
                + " somebody else sent it."
        case .missingState:
            "The response does not belong to the login that was started here (no state): somebody else sent it, or the address was"
                + " not copied whole, in one line."
        case .wrongIssuer:
            "The response does not name the issuer in the configuration."
        case .denied("access_denied"):
            "The login was denied at the authorization server (access_denied)."
        case .denied("other"):
            "The authorization server refused the login with an unknown error code."
        case .denied(let code):
            "The authorization server refused the login (\(code)): check client_id, redirect_uri and scopes."
        case .incomplete(let missing):
            "There is no \(missing) in the address where the browser ended up."
        case .addressNeeded:
            "Without PKCE a code alone is not enough: paste the whole address where the browser ended up."
        }
    }
}
