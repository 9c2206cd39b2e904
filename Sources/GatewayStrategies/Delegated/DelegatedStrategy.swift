import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

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
            fields.error("request_auth", "the header field is already set in \"headers\"")
        }
        let response = DelegatedResponse(in: fields)
        let lifetime = fields.duration("default_ttl", in: .seconds(1) ... .seconds(366 * 86_400))
        let initial = fields.bearerToken("initial_token")
        let initialEnd = fields.time("initial_token_expires")
        if fields.has("initial_token_expires"), !fields.has("initial_token") {
            fields.error("initial_token_expires", "is the expiry of \"initial_token\", which is missing")
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

extension DelegatedStrategy {
    static let meanings = request.merging(SharedMeanings.of("apply")) { own, _ in own }.merging([
        "unique_id": KeyMeaning(
            "The user of the token: a name, or the header field of a request that names the user.",
            type: "a string, or a mapping",
            example: "header: X-Box-User\nallow: [\"11446498\"]"
        ),
        "info": KeyMeaning(
            "More values for templates, as {{info.NAME}}.",
            default: "{}",
            example: "tier: gold\nregion: eu"
        ),
        "response": KeyMeaning(
            "The format of the response: json, text, or where JSON has the token and its expiry.",
            default: "json",
            example: "token: /data/token\nexpires_in: /data/ttl"
        ),
        "default_ttl": KeyMeaning("The lifetime of a token that does not state it.", default: "45m", example: "30m"),
        "initial_token": KeyMeaning(
            "The token to use before the first request to the token server.",
            example: "{env: FIRST_TOKEN}"
        ),
        "initial_token_expires": KeyMeaning(
            "When that token expires.",
            type: "a date, or a time with its zone",
            example: "2027-01-31"
        ),
    ]) { _, own in own }

    private static let request: [String: KeyMeaning] = [
        "url": KeyMeaning(
            "The URL of your token server. Templates such as {{unique_id}} are filled in.",
            example: "\"https://tokens.example.com/token?id={{unique_id}}\""
        ),
        "method": KeyMeaning("The method of that request.", default: "GET, or POST with a body", example: "POST"),
        "headers": KeyMeaning("Header fields of that request.", default: "{}", example: "X-Region: eu\nX-Tier: gold"),
        "body": KeyMeaning(
            "The body of that request: a form, JSON or text.",
            example: "json: {id: \"{{unique_id}}\"}\n# or: form: {id: \"{{unique_id}}\"}"
        ),
        "request_auth": KeyMeaning(
            "How the gateway authenticates to the token server: bearer, basic, header or jwt, each "
                + "optionally with tls.",
            example: "bearer: {env: TOKEN_SERVER_KEY}\n# or: basic: {username: svc, password: {env: PASSWORD}}"
        ),
    ]
}

/// Asks the token server for the token of one subject.
struct DelegatedGrant: TokenGrant {
    let inputs: [(name: String, value: Secret)]
    /// Whose token it is: that of the configuration, or the one that a request has named.
    let uniqueID: String?
    let isNamedByRequest: Bool
    let request: RequestTemplate
    let authorization: DelegatedRequestAuth
    let response: DelegatedResponse
    let defaultLifetime: Duration
    let initial: Secret?
    /// nil: it is used until it is rejected, unless it says its end itself.
    let initialEnd: UnixTime?
    let placement: TokenPlacement

    let isRenewable = true
    let rotatesRefreshToken = false

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: DelegatedStrategy.kind, subject: uniqueID)
        for input in inputs { identity.add(input.name, secret: input.value) }
        authorization.addInputs(to: &identity)
        identity.add("initial_token", secret: initial)
        identity.add("initial_token_expires", initialEnd?.rfc3339)
        return identity
    }

    /// The others are in each request.
    var hiddenSecrets: [Secret] { [initial].compactMap(\.self) }

    var authorityEndpoints: [AuthorityEndpoint] { [AuthorityEndpoint](request.destination) }

    func seed(at now: Moment) -> TokenSet? {
        initial.map { token in
            let ends = [initialEnd, UnverifiedJWT(token)?.expiresAt].compactMap(\.self)
            return TokenSet(access: token, obtainedAt: now.wall, expiresAt: ends.min())
        }
    }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        var values: [String: Secret] = [:]
        if isNamedByRequest, let uniqueID { values["unique_id"] = Secret(uniqueID) }
        guard var request = try? request.request(with: values) else {
            let detail = "The request to the token server at \(request.host) cannot be written."
            return .impossible(TokenFailure(.terminal, problem: GatewayProblem(.credentialMisconfigured, detail)))
        }
        do throws(TokenFailure) {
            try authorization.authenticate(&request, with: values, in: attempt)
            return .request(request)
        } catch {
            return .impossible(error)
        }
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        let now = attempt.now
        switch StatusMap.standard.outcome(of: reply.status) {
        case .success:
            do throws(BrokenAnswer) {
                return .token(try token(in: reply, at: now, remarks: &attempt.remarks))
            } catch {
                return .failure(error.failure(of: "The token server at \(request.host)", status: reply.status))
            }
        case .transient: return .failure(transient(reply, at: now))
        case .terminal, .unlisted: return repair(after: reply, in: attempt) ?? .failure(refusal(reply, at: now))
        }
    }

    private func repair(after reply: TokenReply, in attempt: GrantAttempt) -> GrantAnswer? {
        guard authorization.signs else { return nil }
        let server = "The token server at \(request.host)"
        return AssertionRepair.statement.answer(to: reply, in: attempt, from: server, sign: firstStep)
    }

    private func token(
        in reply: TokenReply,
        at now: Moment,
        remarks: inout [String]
    ) throws(BrokenAnswer) -> TokenSet {
        let json = response.format == .json ? reply.document : nil
        if response.format == .json, json == nil { throw BrokenAnswer(reason: "the body is not JSON") }
        let place = response.format == .json ? Extraction(source: .json(response.token)) : Extraction(source: .body)
        let found = try place.value(in: reply, json: json, from: nil, at: now.wall)
        guard let access = found?.withValue({ IssuedToken.read($0) }),
            !access.withValue({ $0.contains(" ") || $0.contains("<") })
        else { throw BrokenAnswer(reason: "\(place.place) is missing, or is not a token") }
        let token = TokenSet(
            access: access,
            obtainedAt: now.wall,
            expiresAt: try StatedTimes.end(
                of: access,
                at: json.flatMap { response.expiresAt.value(in: $0) },
                after: json.flatMap { response.expiresIn.value(in: $0) },
                usually: defaultLifetime,
                from: now.wall,
                isForgiving: true,
                remarks: &remarks
            )
        )
        if let obstacle = placement.obstacle(to: token) { throw BrokenAnswer(reason: obstacle) }
        return token
    }

    private func transient(_ reply: TokenReply, at now: Moment) -> TokenFailure {
        .transient(
            authority: "The token server at \(request.host)",
            status: reply.status,
            code: cause(of: reply).code,
            wait: reply.retryAfter(at: now)
        )
    }

    /// These speak of the subject and not of us, and one that is unknown today may be known tomorrow.
    private static let statusesAboutSubjects: Set = [400, 403, 404, 409, 410, 422]
    private static let patienceWithSubjects = Duration.seconds(60)

    private func refusal(_ reply: TokenReply, at now: Moment) -> TokenFailure {
        guard !isNamedByRequest || !Self.statusesAboutSubjects.contains(reply.status) else {
            return TokenFailure(
                .transient(retryAfter: reply.retryAfter(at: now) ?? Self.patienceWithSubjects),
                problem: GatewayProblem(
                    .routeForbidden,
                    "The token server at \(request.host) issues no token for this subject (status \(reply.status)).",
                    cause: cause(of: reply)
                )
            )
        }
        let advice =
            switch reply.status {
            case 401, 403: "check request_auth."
            case 404: "check url and unique_id."
            case 300..<400: "a redirect is never followed, so set url to the final address."
            default: "check url, headers, body and unique_id."
            }
        return TokenFailure(
            .terminal,
            problem: GatewayProblem(
                .credentialMisconfigured,
                "The token server at \(request.host) refused to issue a token (status \(reply.status)): \(advice)",
                cause: cause(of: reply)
            ),
            // Directories lock accounts.
            isRetried: !authorization.sendsPassword || RefreshError(reply)?.blamesConfiguration == true
        )
    }

    private func cause(of reply: TokenReply) -> GatewayProblem.Cause {
        let code = reply.document?["error"]?.string
        return GatewayProblem.Cause(code: OAuthErrorCode.allowListed(code), httpStatus: reply.status)
    }

    func injection(of token: TokenSet) -> Injection { placement.injection(of: token) }
}

/// The tokens of all subjects that requests name.
struct DelegatedSubjects: SubjectGrants {
    let subjects: NamedSubjects
    /// That of no subject.
    let common: DelegatedGrant

    var field: String { subjects.field }
    var limit: Int { subjects.limit }
    var isRenewable: Bool { common.isRenewable }
    var authorityEndpoints: [AuthorityEndpoint] { common.authorityEndpoints }

    var identity: GrantIdentity {
        var identity = common.identity
        identity.add("unique_id.header", subjects.field.lowercased())
        return identity
    }

    func allows(_ subject: String) -> Bool { subjects.allows(subject) }

    func grant(for subject: String) -> any TokenGrant {
        DelegatedGrant(
            inputs: common.inputs,
            uniqueID: subject,
            isNamedByRequest: true,
            request: common.request,
            authorization: common.authorization,
            response: common.response,
            defaultLifetime: common.defaultLifetime,
            initial: nil,
            initialEnd: nil,
            placement: common.placement
        )
    }
}

/// Where in the token server's answer the token and its end stand.
struct DelegatedResponse: Hashable {
    enum Format: String, CaseIterable {
        case json
        case text
    }

    let format: Format
    let token: JSONPointer
    let expiresIn: JSONPointer
    let expiresAt: JSONPointer

    /// Reads `text`, `json`, or `{format, token, expires_in, expires_at}` with JSON pointers.
    init?(in fields: ConfigFields) {
        if case .scalar(let scalar)? = fields.node("response")?.content, !scalar.isNull {
            guard let format = fields.choice("response", of: Format.self) else { return nil }
            self.init(format: format, pointer: Self.usual)
            return
        }
        let own = fields.fields("response")
        own?.explain([
            "format": KeyMeaning(
                "What the response is. text is the token and nothing else.",
                default: "json",
                example: "json"
            ),
            "token": KeyMeaning("Where the token is.", default: "/access_token", example: "/data/token"),
            "expires_in": SharedMeanings.expiresIn,
            "expires_at": KeyMeaning(
                "Where the time of expiry is.",
                default: "/expires_at",
                example: "/data/expires_at"
            ),
        ])
        let format = own?.choice("format", of: Format.self) ?? .json
        self.init(
            format: format,
            pointer: { key in
                guard let text = own?.string(key) else { return Self.usual(key) }
                if format == .text { own?.error(key, "plain text has no parts; use format: json") }
                let pointer = JSONPointer(text)
                if pointer == nil { own?.error(key, "expected a JSON pointer such as /data/\(key) (RFC 6901)") }
                return pointer
            }
        )
        own?.refuseUnknownKeys()
    }

    /// As RFC 6749 §5.1 calls them, and as `POST /tokens/NAME` of a gateway answers.
    private static func usual(_ key: String) -> JSONPointer? {
        JSONPointer(key == "token" ? "/access_token" : "/\(key)")
    }

    private init?(format: Format, pointer: (String) -> JSONPointer?) {
        let (token, expiresIn, expiresAt) = (pointer("token"), pointer("expires_in"), pointer("expires_at"))
        guard let token, let expiresIn, let expiresAt else { return nil }
        (self.format, self.token, self.expiresIn, self.expiresAt) = (format, token, expiresIn, expiresAt)
    }
}
