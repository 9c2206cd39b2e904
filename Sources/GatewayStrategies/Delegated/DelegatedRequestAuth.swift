import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// How the gateway shows the token server who it is: `request_auth`.
struct DelegatedRequestAuth: Sendable {
    fileprivate enum Proof {
        case none
        case field(Injection.Field)
        case assertion(DelegatedAssertion)
    }

    private var proof = Proof.none
    /// What it shows the server; nil when it shows nothing.
    private(set) var tls: ClientTLS?

    /// Reads one of `bearer`, `basic`, `header` and `jwt`, and `tls` alone or beside it.
    ///
    /// - Parameter server: Whom an assertion is meant for unless it says otherwise; nil after a mistake in the URL.
    init(in fields: ConfigFields, scope: TemplateScope, server: Origin?) {
        fields.hideUnlessMapping("request_auth")
        guard let own = fields.fields("request_auth") else { return }
        own.explain(Self.meanings)
        own.hidesUnknownValues = true
        defer { own.refuseUnknownKeys() }
        if own.has("tls") {
            tls = ClientTLS(in: own)
            if server?.scheme == .http { own.error("tls", "has no effect: the token server is http") }
        }
        let kinds = ["bearer", "basic", "header", "jwt"].filter { own.has($0) }
        // All of them before the mistake is reported: what is a secret is then known as one.
        let proofs = kinds.map { Self.proof($0, in: own, scope: scope, server: server) }
        guard kinds.count < 2, let proof = proofs.first else {
            if kinds.count > 1 || (!own.has("tls") && own.unknownKeys.isEmpty) {
                own.error("the request is authenticated by one of bearer, basic, header and jwt, by tls, or by both")
            }
            return
        }
        self.proof = proof
    }

    private static func proof(
        _ kind: String,
        in own: ConfigFields,
        scope: TemplateScope,
        server: Origin?
    ) -> Proof {
        if kind != "bearer" { own.hideUnlessMapping(kind) }
        switch kind {
        case "bearer":
            return .init(own.bearerToken("bearer").flatMap { Injection.bearer($0).fields.first })
        case "basic":
            guard let basic = own.fields("basic") else { return .none }
            defer { basic.refuseUnknownKeys() }
            if basic.has("mode") { basic.error("mode", "has no effect: the token server always gets the password") }
            return .init(BasicStrategy(from: basic)?.field)
        case "header":
            guard let header = own.fields("header") else { return .none }
            defer { header.refuseUnknownKeys() }
            if header.has("path") { header.error("path", "cannot be used here: the token server gets a header field") }
            return .init(HeaderStrategy(from: header)?.field)
        default:
            guard let jwt = own.fields("jwt") else { return .none }
            defer { jwt.refuseUnknownKeys() }
            return DelegatedAssertion(in: jwt, scope: scope, audience: server?.description).map { .assertion($0) }
                ?? .none
        }
    }

    /// The field that it adds; nil when it adds none.
    var fieldName: String? {
        switch proof {
        case .none: nil
        case .field(let field): field.name
        case .assertion: "Authorization"
        }
    }

    /// Whether it sends a user name and a password.
    var sendsPassword: Bool {
        guard case .field(let field) = proof else { return false }
        return field.value.withValue { $0.hasPrefix("Basic ") }
    }

    /// Whether it signs every request anew.
    var signs: Bool { if case .assertion = proof { true } else { false } }

    func authenticate(
        _ request: inout TokenRequest,
        with values: [String: Secret],
        in attempt: GrantAttempt
    ) throws(TokenFailure) {
        request.tls = tls
        switch proof {
        case .none: break
        case .field(let field): request.fields.append(field)
        case .assertion(let assertion):
            request.fields += Injection.bearer(try assertion.token(with: values, in: attempt)).fields
        }
    }

    func addInputs(to identity: inout GrantIdentity) {
        switch proof {
        case .none: break
        case .field(let field): identity.add("authorization", secret: field.value)
        case .assertion(let assertion): assertion.addInputs(to: &identity)
        }
        tls?.addInputs(to: &identity)
    }
}

extension DelegatedRequestAuth {
    private static let meanings: [String: KeyMeaning] = [
        "bearer": KeyMeaning("A fixed bearer token.", example: "{env: TOKEN_SERVER_KEY}"),
        "basic": KeyMeaning(
            "A user name and a password, as for the strategy basic.",
            example: "{username: gateway, password: {env: TOKEN_SERVER_PASSWORD}}"
        ),
        "header": KeyMeaning(
            "A fixed value in a header field or the query, as for the strategy header.",
            example: "{name: X-Api-Key, value: {env: TOKEN_SERVER_KEY}}"
        ),
        "jwt": KeyMeaning(
            "A JSON Web Token that is signed for each request.",
            example: "key: {file: token-server-key.pem}\nclaims: {iss: authgateway}"
        ),
        "tls": KeyMeaning(
            "A client certificate, or the certificate authorities of the server. Alone, or together with one of the others.",
            example: "certificate: client.pem\nprivate_key: {file: client-key.pem}"
        ),
    ]
}

extension DelegatedRequestAuth.Proof {
    fileprivate init(_ field: Injection.Field?) { self = field.map { .field($0) } ?? .none }
}

/// A statement about ourselves that is signed anew for every request (RFC 7519).
private struct DelegatedAssertion {
    let signer: JWTSigner
    private let claims: AssertionClaims
    /// Claims into which the subject of a request is filled.
    private let templates: [String: Template]

    init?(in fields: ConfigFields, scope: TemplateScope, audience: String?) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let signer = fields.signerOrShared(key: "key", secret: "secret")
        let claims = AssertionClaims(in: fields, audience: audience)
        guard let signer, var claims, fields.context.errorCount == errors,
            let templates = claims.settle(scope, in: fields)
        else { return nil }
        self.signer = signer
        self.claims = claims
        self.templates = templates
    }

    func token(with values: [String: Secret], in attempt: GrantAttempt) throws(TokenFailure) -> Secret {
        var all = claims.all(in: attempt)
        for (name, template) in templates {
            guard let value = try? template.filled(from: values) else { continue }
            all[name] = value.withValue { .string($0) }
        }
        return try signer.sign(all)
    }

    func addInputs(to identity: inout GrantIdentity) {
        signer.addInputs(to: &identity)
        claims.addInputs(to: &identity)
    }
}

extension DelegatedAssertion {
    private static let meanings = SharedMeanings.of("passphrase", "key_id", "algorithm").merging([
        "key": KeyMeaning("The private key, in PEM.", example: "{file: token-server-key.pem}"),
        "secret": KeyMeaning(
            "The shared secret, for HS256, HS384 and HS512, instead of a key.",
            example: "{env: TOKEN_SERVER_SECRET}"
        ),
        "claims": KeyMeaning(
            "The claims. iss is required, aud defaults to the origin of the server, and {{unique_id}} is filled in.",
            example: "{iss: authgateway, sub: gateway}"
        ),
        "lifetime": KeyMeaning("How long it is valid.", default: "60s", example: "30s"),
    ]) { own, _ in own }
}
