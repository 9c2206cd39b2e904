package import GatewayHTTP

/// What a client asks of an authorization server whose logins are captured.
package enum CapturedRequest: Hashable, Sendable {
    /// Exchange a code (RFC 6749 section 4.1.3).
    ///
    /// - Parameter form: What goes to the authorization server, without what identifies the client.
    case exchange(form: [TokenRequest.Parameter])
    /// Refresh (RFC 6749 section 6).
    case refresh(token: Secret)
    /// Revoke (RFC 7009 section 2.1).
    case revoke(token: Secret)

    package enum Endpoint: String, CaseIterable, Sendable {
        case token = "token_url"
        case revocation = "revoke_url"
    }

    /// Larger bodies are refused. A code may be a JWT of some KiB.
    package static let maximumBody = 64 << 10
    private static let maximumParameters = 64

    /// What identifies the client at the authorization server. The gateway sends its own instead.
    private static let clientParameters: Set<String> = [
        "client_id", "client_secret", "client_assertion", "client_assertion_type",
    ]

    /// - Parameters:
    ///   - body: `application/x-www-form-urlencoded`.
    ///   - authorization: The value of `Authorization`, if there is one.
    ///   - clientID: That of the credential.
    package init(
        at endpoint: Endpoint,
        body: [UInt8],
        authorization: String?,
        clientID: String
    ) throws(CaptureRefusal) {
        guard body.count <= Self.maximumBody else { throw .unreadable }
        let form = try Self.form(body)
        try Self.checkClient(form, authorization, clientID)
        switch endpoint {
        case .revocation:
            guard let token = form.first(where: { $0.name == "token" })?.value else { throw .missing("token") }
            self = .revoke(token: token)
        case .token:
            guard let grant = form.first(where: { $0.name == "grant_type" })?.value else {
                throw .missing("grant_type")
            }
            if grant.matches("authorization_code".utf8) {
                guard form.contains(where: { $0.name == "code" }) else { throw .missing("code") }
                self = .exchange(form: form.filter { !Self.clientParameters.contains($0.name) })
            } else if grant.matches("refresh_token".utf8) {
                guard let token = form.first(where: { $0.name == "refresh_token" })?.value else {
                    throw .missing("refresh_token")
                }
                self = .refresh(token: token)
            } else {
                throw .otherGrant
            }
        }
    }

    /// Without parameters that have no value, which are treated as if they were not there (RFC 6749 section 3.2).
    private static func form(_ body: [UInt8]) throws(CaptureRefusal) -> [TokenRequest.Parameter] {
        let pairs = body.split(separator: UInt8(ascii: "&"), maxSplits: maximumParameters)
        guard pairs.count <= maximumParameters else { throw .unreadable }
        var form: [TokenRequest.Parameter] = []
        for pair in pairs {
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, let name = FormEncoding.decode(parts[0]), let value = FormEncoding.decode(parts[1])
            else { throw .unreadable }
            guard !value.isEmpty else { continue }
            // `resource` and `audience` may stand there several times (RFC 8707 section 2, RFC 8693 section 2.1), others may not.
            let mayRepeat = name == "resource" || name == "audience"
            guard mayRepeat || !form.contains(where: { $0.name == name }) else { throw .repeated }
            form.append(TokenRequest.Parameter(name, value))
        }
        return form
    }

    /// The secret is not looked at: the client has proven to the gateway who it is.
    private static func checkClient(
        _ form: [TokenRequest.Parameter],
        _ authorization: String?,
        _ clientID: String
    ) throws(CaptureRefusal) {
        let named = form.first { $0.name == "client_id" }?.value
        var isNamed = named != nil
        if let named, !named.matches(clientID.utf8) { throw .otherClient }
        if let authorization {
            let words = authorization.split(separator: " ", maxSplits: 1)
            guard words.count == 2, words[0].lowercased() == "basic", let pair = Base64.decode(words[1]),
                let colon = pair.firstIndex(of: UInt8(ascii: ":"))
            else { throw .otherClient }
            // Clients differ in whether they encode it (RFC 6749 section 2.3.1).
            let name = pair[..<colon]
            guard name.elementsEqual(clientID.utf8) || FormEncoding.decode(name) == clientID else {
                throw .otherClient
            }
            isNamed = true
        }
        guard isNamed else { throw .otherClient }
    }
}

/// Why a request to an authorization server whose logins are captured is refused. It is forwarded in no case.
package enum CaptureRefusal: Error, Hashable, Sendable {
    /// The method, the query or a field; the words follow "The request".
    case head(String)
    case unreadable
    case repeated
    case missing(String)
    case otherClient
    case otherGrant
    /// Not a phantom of this client, or one that was revoked.
    case unknownToken
    /// Another client has a login, and it cannot be told whether this one is of the same account.
    case otherClientsLogin
    case otherAccount
    /// Two codes are exchanged at the same time.
    case busy
    /// An operator took the credential's logins away while the code was exchanged.
    case ended
    /// The answer to the code has what the gateway cannot stand in for; the words follow "The answer of the authorization server".
    case answer(String)

    package var answer: OAuthAnswer {
        switch self {
        case .head(let words): OAuthAnswer(error: "invalid_request", "The request \(words).")
        case .unreadable: OAuthAnswer(error: "invalid_request", "The body is not a form that the gateway reads.")
        case .repeated: OAuthAnswer(error: "invalid_request", "The form has a parameter more than once.")
        case .missing(let name): OAuthAnswer(error: "invalid_request", "The form has no \(name).")
        case .otherClient:
            OAuthAnswer(
                error: "invalid_client",
                "This client_id is not the one whose logins the gateway captures.",
                status: 401
            )
        case .otherGrant:
            OAuthAnswer(
                error: "unsupported_grant_type",
                "The gateway captures logins with authorization_code and refresh_token only."
            )
        case .unknownToken:
            OAuthAnswer(error: "invalid_grant", "The gateway did not issue this token to this client. Log in again.")
        case .otherClientsLogin:
            OAuthAnswer(
                error: "invalid_grant",
                "Another client of the gateway is logged in, and no ID token shows whether the account is the same."
            )
        case .otherAccount:
            OAuthAnswer(error: "invalid_grant", "The login is of another account than the captured one.")
        case .busy:
            OAuthAnswer(
                error: "temporarily_unavailable",
                "The gateway is exchanging the code of another login. Log in again.",
                status: 503
            )
        case .ended:
            OAuthAnswer(
                error: "invalid_grant",
                "An operator ended the logins of this credential meanwhile. Log in again."
            )
        case .answer(let words):
            OAuthAnswer(error: "invalid_grant", "The answer of the authorization server \(words).")
        }
    }

    /// For the audit log.
    package var reason: String {
        switch self {
        case .head: "head"
        case .unreadable: "unreadable"
        case .repeated: "repeated_parameter"
        case .missing: "incomplete"
        case .otherClient: "other_client_id"
        case .otherGrant: "other_grant"
        case .unknownToken: "unknown_token"
        case .otherClientsLogin: "other_client_logged_in"
        case .otherAccount: "other_account"
        case .busy: "busy"
        case .ended: "ended"
        case .answer: "answer"
        }
    }
}

/// Stands for a token of a login that was captured: 256 random bits, and what they say of themselves.
///
/// That for the access token is made from that for the refresh token, so a refresh gives the same one again.
package struct Phantom: Hashable, Sendable {
    /// What phantoms begin with. Requests are searched for it.
    package static let marks: [StaticString] = [refreshMark, accessMark]
    private static let refreshMark: StaticString = "agp_r_"
    private static let accessMark: StaticString = "agp_a_"
    /// In lower-case hexadecimal digits.
    private static let digits = 64

    package let refresh: Secret
    package let access: Secret

    package init(sha256: ([UInt8]) -> [UInt8]) {
        self.init(refresh: Secret("\(Self.refreshMark)\(Hexadecimal.random(bytes: Self.digits / 2))"), sha256: sha256)
    }

    /// - Parameter refresh: What ``isRefresh(_:)``.
    package init(refresh: Secret, sha256: ([UInt8]) -> [UInt8]) {
        self.refresh = refresh
        access = Secret("\(Self.accessMark)\(Hexadecimal.text(of: refresh.withValue { sha256(Array($0.utf8)) }))")
    }

    package static func isRefresh(_ token: Secret) -> Bool { token.withValue { has(Array($0.utf8), refreshMark) } }
    package static func isAccess(_ token: [UInt8]) -> Bool { has(token, accessMark) }

    private static func has(_ token: [UInt8], _ mark: StaticString) -> Bool {
        let mark = mark.description.utf8
        return token.count == mark.count + digits && token.starts(with: mark)
            && token.dropFirst(mark.count).allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
    }

    /// What is kept of it.
    package func digests(sha256: ([UInt8]) -> [UInt8]) -> Digests {
        Digests(
            refresh: refresh.withValue { sha256(Array($0.utf8)) },
            access: access.withValue { sha256(Array($0.utf8)) }
        )
    }

    package struct Digests: Hashable, Sendable {
        package let refresh: [UInt8]
        package let access: [UInt8]

        package init(refresh: [UInt8], access: [UInt8]) { (self.refresh, self.access) = (refresh, access) }
    }
}
