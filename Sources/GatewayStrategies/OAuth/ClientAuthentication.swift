import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// How a client proves to a token endpoint who it is (RFC 6749 §2.3, RFC 7523 §2.2).
///
/// Read from `client_id`, `client_secret`, `client_auth` and `client_auth_encoding`; for `private_key_jwt` from `private_key`, `passphrase`,
/// `key_id`, `algorithm` and `audience`.
struct ClientAuthentication: Sendable {
    enum Method: String, CaseIterable {
        /// `client_secret_post`.
        case body
        /// `client_secret_basic`.
        case basic
        case privateKeyJWT = "private_key_jwt"
        /// A statement that others sign (RFC 7521 §4.2).
        case assertion
        /// A certificate in the TLS handshake (RFC 8705 §2).
        case tls
        /// A public client: it says who it is and proves nothing (RFC 6749 §2.1).
        case none
    }

    /// What becomes of both halves before `basic` joins them.
    enum Encoding: String, CaseIterable {
        /// As RFC 6749 section 2.3.1 says.
        case form
        /// As RFC 7617 alone has it: some authorization servers compare what they receive without decoding it.
        case none
    }

    private enum Proof {
        case body(Secret)
        case basic(Secret, Encoding)
        case assertion(ClientAssertion)
        case issued(AssertionSource)
        case tls(ClientTLS)
        case none
    }

    let clientID: String
    private let proof: Proof

    /// - Parameters:
    ///   - tokenURL: Whom an assertion is meant for unless `audience` says otherwise; nil after a mistake in it.
    ///   - allowsPublic: Whether a client without a secret is accepted.
    ///   - ownsKey: The keys that describe a private key belong to the strategy, as does `assertion`.
    init?(
        in fields: ConfigFields,
        tokenURL: AuthorityURL?,
        allowsPublic: Bool = false,
        ownsKey: Bool = false
    ) {
        let errors = fields.context.errorCount
        let clientID = fields.requiredString("client_id")
        let method = Self.method(in: fields, allowsPublic: allowsPublic)
        if method != .privateKeyJWT, method != nil, !ownsKey {
            for key in Self.assertionKeys where fields.has(key) {
                fields.error(key, "is for client_auth: private_key_jwt")
            }
        }
        let encoding = Self.encoding(in: fields, for: method)
        if method != .tls, method != nil, fields.has("tls") {
            fields.error("tls", "is for client_auth: tls")
        }
        if method != .assertion, method != nil, !ownsKey, fields.has("assertion") {
            fields.hideUnlessMapping("assertion")
            fields.error("assertion", "is for client_auth: assertion")
        }
        let proof: Proof?
        switch method {
        case .body: proof = fields.requiredSecret("client_secret").map { .body($0) }
        case .basic: proof = fields.requiredSecret("client_secret").map { .basic($0, encoding) }
        case .privateKeyJWT:
            if fields.has("client_secret") {
                fields.error("client_secret", "cannot be combined with client_auth: private_key_jwt")
            }
            proof = ClientAssertion(in: fields, clientID: clientID ?? "", tokenURL: tokenURL).map { .assertion($0) }
        case .assertion:
            if fields.has("client_secret") {
                fields.error("client_secret", "cannot be combined with client_auth: assertion")
            }
            proof = fields.requiredAssertion("assertion").map { .issued($0) }
        case .tls: proof = Self.tls(in: fields, tokenURL: tokenURL).map { .tls($0) }
        case ClientAuthentication.Method.none?: proof = Proof.none
        case nil: proof = nil
        }
        if encoding == .none, let clientID, clientID.contains(":") {
            fields.error("client_id", "must not contain \":\", which ends the ID if nothing is encoded (RFC 7617)")
        }
        guard let clientID, let proof, fields.context.errorCount == errors else { return nil }
        self.clientID = clientID
        self.proof = proof
    }

    private static func encoding(in fields: ConfigFields, for method: Method?) -> Encoding {
        let encoding = fields.choice("client_auth_encoding", of: Encoding.self) ?? .form
        if fields.has("client_auth_encoding"), method != .basic, method != nil {
            fields.error("client_auth_encoding", "is for client_auth: basic")
        }
        return encoding
    }

    private static func tls(in fields: ConfigFields, tokenURL: AuthorityURL?) -> ClientTLS? {
        if fields.has("client_secret") {
            fields.error("client_secret", "cannot be combined with client_auth: tls")
        }
        if !fields.has("tls") { fields.missing("tls") }
        if tokenURL?.origin.scheme == .http { fields.error("tls", "has no effect: token_url is http") }
        return ClientTLS(in: fields)
    }

    /// Whether a key here is about a client.
    ///
    /// - Parameter ownsKey: The keys that describe a private key belong to the strategy.
    static func isNamed(in fields: ConfigFields, ownsKey: Bool = false) -> Bool {
        let keys = ["client_id", "client_secret", "client_auth", "client_auth_encoding", "tls"]
        return (ownsKey ? keys : keys + ["assertion"] + assertionKeys).contains { fields.has($0) }
    }

    private static let assertionKeys = [
        "private_key", "passphrase", "key_id", "algorithm", "audience", "certificate",
    ]

    private static func method(in fields: ConfigFields, allowsPublic: Bool) -> Method? {
        guard fields.has("client_auth") else {
            return allowsPublic && !fields.has("client_secret") ? Method.none : .body
        }
        let names = StandardNames.clientAuthentications
        guard let method = fields.choice("client_auth", of: Method.self, standardNames: names) else { return nil }
        guard method == .none else { return method }
        if !allowsPublic { fields.error("client_auth", "this grant is for clients that authenticate") }
        if fields.has("client_secret") { fields.error("client_secret", "cannot be combined with client_auth: none") }
        return method
    }

    /// Whether its proof is a secret, and not a signature or nothing.
    var sendsSecret: Bool {
        switch proof {
        case .body, .basic: true
        case .assertion, .issued, .tls, .none: false
        }
    }

    /// What to check where the authorization server does not accept the client; nil where there is nothing special about it.
    var refusalAdvice: String? {
        guard case .basic(_, let encoding) = proof else { return nil }
        let other = encoding == .form ? Encoding.none : .form
        return "check client_id, client_secret and client_auth. With client_auth: basic, some servers require"
            + " client_auth_encoding: \(other.rawValue)."
    }

    /// What it shows in the TLS handshake; nil when it shows nothing.
    var clientTLS: ClientTLS? {
        guard case .tls(let tls) = proof else { return nil }
        return tls
    }

    /// Adds the proof to a request with a form: to its header fields, or behind the form's own parameters.
    func authenticate(_ request: TokenRequest, in attempt: GrantAttempt) throws(TokenFailure) -> TokenRequest {
        var request = request
        var form: [TokenRequest.Parameter] = []
        if case .form(let parameters) = request.body { form = parameters }
        switch proof {
        case .body(let secret):
            form.append(TokenRequest.Parameter("client_id", clientID))
            form.append(TokenRequest.Parameter("client_secret", secret))
        case .basic(let secret, let encoding):
            request.fields += authorization(secret, encoding).fields
        case .assertion(let assertion):
            form.append(TokenRequest.Parameter("client_id", clientID))
            form += try assertion.parameters(in: attempt)
        case .issued(let source):
            form.append(TokenRequest.Parameter("client_id", clientID))
            form.append(TokenRequest.Parameter("client_assertion_type", ClientAssertion.type))
            request.issuedParameters.append(TokenRequest.IssuedParameter("client_assertion", from: source))
        case .tls(let tls):
            form.append(TokenRequest.Parameter("client_id", clientID))
            request.tls = tls
        case .none:
            form.append(TokenRequest.Parameter("client_id", clientID))
        }
        request.body = .form(form)
        return request
    }

    /// What to do about the answer to a request whose proof the authorization server's clock refuses; nil when it is not about that.
    ///
    /// - Parameter sign: Makes the request anew in an attempt whose time is that of the authorization server.
    func repair(
        after reply: TokenReply,
        in attempt: GrantAttempt,
        from authority: String = OAuthErrors.standard.authority,
        sign: (GrantAttempt) -> GrantStep
    ) -> GrantAnswer? {
        guard case .assertion = proof else { return nil }
        return AssertionRepair.client.answer(to: reply, in: attempt, from: authority, sign: sign)
    }

    /// The first step of a grant that asks with one form.
    func step(_ form: [TokenRequest.Parameter], at url: AuthorityURL, in attempt: GrantAttempt) -> GrantStep {
        GrantStep { () throws(TokenFailure) in
            try authenticate(TokenRequest(url: url, body: .form(form)), in: attempt)
        }
    }

    private func authorization(_ secret: Secret, _ encoding: Encoding) -> Injection {
        switch encoding {
        case .form:
            let encoded = secret.withValue { Secret(FormEncoding.encode($0)) }
            return .basic(username: FormEncoding.encode(clientID), password: encoded)
        case .none: return .basic(username: clientID, password: secret)
        }
    }

    func addInputs(to identity: inout GrantIdentity) {
        identity.add("client_id", clientID)
        switch proof {
        case .body(let secret):
            identity.add("client_auth", Method.body.rawValue)
            identity.add("client_secret", secret: secret)
        case .basic(let secret, let encoding):
            identity.add("client_auth", Method.basic.rawValue)
            // A store of an earlier version knows tokens without it.
            if encoding == .none { identity.add("client_auth_encoding", encoding.rawValue) }
            identity.add("client_secret", secret: secret)
        case .assertion(let assertion):
            identity.add("client_auth", Method.privateKeyJWT.rawValue)
            assertion.addInputs(to: &identity)
        case .issued(let source):
            identity.add("client_auth", Method.assertion.rawValue)
            source.addInputs(to: &identity, as: "assertion")
        case .tls(let tls):
            identity.add("client_auth", Method.tls.rawValue)
            tls.addInputs(to: &identity)
        case .none:
            identity.add("client_auth", Method.none.rawValue)
        }
    }
}

/// `private_key_jwt`: the client signs a statement about itself (RFC 7523 §2.2, §3).
private struct ClientAssertion {
    static let type = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    static let lifetime: Duration = .seconds(60)

    let signer: JWTSigner
    let clientID: String
    let audience: String

    init?(in fields: ConfigFields, clientID: String, tokenURL: AuthorityURL?) {
        let audience = fields.string("audience")
        guard var signer = fields.signer(key: "private_key"), let audience = audience ?? tokenURL?.text else {
            fields.know("certificate")
            return nil
        }
        if fields.has("certificate") {
            guard let thumbprint = fields.thumbprint("certificate", of: signer) else { return nil }
            signer.certificateThumbprint = thumbprint
        }
        self.signer = signer
        self.clientID = clientID
        self.audience = audience
    }

    func parameters(in attempt: GrantAttempt) throws(TokenFailure) -> [TokenRequest.Parameter] {
        let now = attempt.now.wall
        var claims: [String: JSONValue] = [
            "iss": .string(clientID),
            "sub": .string(clientID),
            "aud": .string(audience),
            "jti": .string(attempt.assertionID),
            "iat": .time(now),
            "exp": .time(now + Self.lifetime),
        ]
        // "Application authentication certificate credentials", learn.microsoft.com/entra/identity-platform.
        if signer.certificateThumbprint != nil { claims["nbf"] = .time(now) }
        let assertion = try signer.sign(claims)
        return [
            TokenRequest.Parameter("client_assertion_type", Self.type),
            TokenRequest.Parameter("client_assertion", assertion),
        ]
    }

    func addInputs(to identity: inout GrantIdentity) {
        signer.addInputs(to: &identity)
        identity.add("audience", audience)
    }
}
