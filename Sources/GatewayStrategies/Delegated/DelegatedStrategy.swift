import GatewayCore

/// Asks a token server of one's own for the token of one user: what Box's mobile SDKs call delegated, or server-side,
/// authentication.
struct DelegatedStrategy: AuthStrategy {
    static let kind = "delegated"
    static let clientTLSKey = "request_auth.tls"

    let behavior: AuthBehavior
    let clientTLS: ClientTLS?

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let subject = DelegatedSubject(in: fields)
        let scope = Self.scope(in: fields, subject)
        let request = RequestTemplate(in: fields, scope: scope, readsBasic: false)
        let authorization = DelegatedRequestAuth(in: fields, scope: scope, server: request?.origin)
        if let request, let name = authorization.fieldName,
            request.headers.contains(where: { $0.name.lowercased() == name.lowercased() })
        {
            fields.error("request_auth", "the header field is written in \"headers\" already")
        }
        let response = DelegatedResponse(in: fields)
        let lifetime = fields.duration("default_ttl", in: .seconds(1) ... .seconds(366 * 86_400))
        let initial = fields.bearerToken("initial_token")
        let initialEnd = fields.time("initial_token_expires")
        if fields.has("initial_token_expires"), !fields.has("initial_token") {
            fields.error("initial_token_expires", "is the end of \"initial_token\", which is missing")
        }
        let placement = TokenPlacement(in: fields)
        subject?.check(in: fields, besides: placement)
        guard let subject, let request, let response, let placement, fields.context.errorCount == errors else {
            return nil
        }
        let keys = ["url", "method", "headers", "body", "info", "response", "request_auth", "apply"]
        let grant = DelegatedGrant(
            inputs: keys.compactMap { key in fields.node(key).map { (key, Secret($0.canonicalText)) } },
            uniqueID: subject.fixed,
            isNamedByRequest: false,
            request: request,
            authorization: authorization,
            response: response,
            // What the sample of Box's content SDK takes for granted.
            defaultLifetime: lifetime ?? .seconds(2700),
            initial: initial,
            initialEnd: initialEnd,
            placement: placement
        )
        clientTLS = authorization.tls
        switch subject {
        case .none, .fixed: behavior = .token(grant)
        case .named(let subjects):
            behavior = .tokens(DelegatedSubjects(subjects: subjects, common: grant))
        }
    }

    /// The names that the templates may use.
    private static func scope(in fields: ConfigFields, _ subject: DelegatedSubject?) -> TemplateScope {
        var scope = TemplateScope()
        if let fixed = subject?.fixed {
            scope.constants["unique_id"] = fixed
        } else if fields.has("unique_id") {
            scope.names.insert("unique_id")
        }
        for (name, value) in fields.stringMap("info") ?? [] {
            if !Template.isName(name) { fields.error("info", "\"\(name)\" is not a name for a template") }
            scope.constants["info.\(name)"] = value
        }
        return scope
    }
}
