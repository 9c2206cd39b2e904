import GatewayCore

/// Asks a token server of one's own for the token of one user: what Box's mobile SDKs call delegated, or server-side,
/// authentication.
struct DelegatedStrategy: AuthStrategy {
    static let kind = "delegated"

    private let grant: DelegatedGrant

    init?(from fields: ConfigFields) {
        let errors = fields.context.errorCount
        let uniqueID = fields.string("unique_id")
        var scope = TemplateScope()
        if let uniqueID { scope.constants["unique_id"] = uniqueID }
        let info = fields.stringMap("info") ?? []
        for (name, value) in info {
            if !Template.isName(name) { fields.error("info", "\"\(name)\" is not a name for a template") }
            scope.constants["info.\(name)"] = value
        }
        let authorization = DelegatedAuthorization(in: fields)
        let request = RequestTemplate(in: fields, scope: scope, readsBasic: false)
        if let request, authorization.field != nil,
            request.headers.contains(where: { $0.name.lowercased() == authorization.field?.name.lowercased() })
        {
            fields.error("request_auth", "the header field is written in \"headers\" already")
        }
        let response = DelegatedResponse(in: fields)
        let lifetime = fields.duration("default_ttl", in: .seconds(1) ... .seconds(366 * 86_400))
        let initial = fields.bearerToken("initial_token")
        let placement = TokenPlacement(in: fields)
        guard let request, let response, let placement, fields.context.errorCount == errors else { return nil }
        let keys = ["url", "method", "headers", "body", "info", "response", "request_auth", "apply"]
        let inputs = keys.compactMap { key in fields.node(key).map { (key, Secret($0.canonicalText)) } }
        let written = ["url", "headers", "body"].compactMap { fields.node($0)?.canonicalText }
        if uniqueID != nil, !written.contains(where: { $0.contains("unique_id") }) {
            fields.error("unique_id", "is sent nowhere: write {{unique_id}} into url, headers or body")
            return nil
        }
        grant = DelegatedGrant(
            inputs: inputs,
            uniqueID: uniqueID,
            request: request,
            authorization: authorization.field,
            response: response,
            // What the sample of Box's content SDK takes for granted.
            defaultLifetime: lifetime ?? .seconds(2700),
            initial: initial,
            placement: placement
        )
    }

    var behavior: AuthBehavior { .token(grant) }
}

/// How the gateway shows the token server who it is: `request_auth`.
private struct DelegatedAuthorization {
    var field: Injection.Field?

    init(in fields: ConfigFields) {
        guard let own = fields.fields("request_auth") else { return }
        defer { own.refuseUnknownKeys() }
        let kinds = ["bearer", "basic", "header"].filter { own.has($0) }
        guard kinds.count == 1, let kind = kinds.first else {
            if !kinds.isEmpty || own.unknownKeys.isEmpty {
                own.error("the request is authenticated by exactly one of bearer, basic and header")
            }
            return
        }
        switch kind {
        case "bearer":
            field = own.bearerToken("bearer").flatMap { Injection.bearer($0).fields.first }
        case "basic":
            guard let basic = own.fields("basic") else { return }
            if basic.has("mode") { basic.error("mode", "the token server is sent the password at once") }
            field = BasicStrategy(from: basic)?.field
            basic.refuseUnknownKeys()
        default:
            guard let header = own.fields("header") else { return }
            field = HeaderStrategy(from: header)?.field
            header.refuseUnknownKeys()
        }
    }
}

/// Where in the token server's answer the token and its end stand.
private struct DelegatedResponse: Hashable {
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
        let format = own?.choice("format", of: Format.self) ?? .json
        self.init(
            format: format,
            pointer: { key in
                guard let text = own?.string(key) else { return Self.usual(key) }
                if format == .text { own?.error(key, "a text has no parts; use format: json") }
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

private struct DelegatedGrant: TokenGrant {
    let inputs: [(name: String, value: Secret)]
    let uniqueID: String?
    let request: RequestTemplate
    let authorization: Injection.Field?
    let response: DelegatedResponse
    let defaultLifetime: Duration
    let initial: Secret?
    let placement: TokenPlacement

    let isRenewable = true
    let rotates = false

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: DelegatedStrategy.kind, subject: uniqueID)
        for input in inputs { identity.add(input.name, secret: input.value) }
        identity.add("authorization", secret: authorization?.value)
        identity.add("initial_token", secret: initial)
        return identity
    }

    func seed(at now: Moment) -> TokenSet? {
        initial.map { TokenSet(access: $0, obtainedAt: now.wall, expiresAt: UnverifiedJWT($0)?.expiresAt) }
    }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        guard var request = try? request.request(with: [:]) else {
            let detail = "The request to the token server at \(request.host) cannot be written."
            return .impossible(TokenFailure(.terminal, problem: GatewayProblem(.credentialMisconfigured, detail)))
        }
        if let authorization { request.fields.append(authorization) }
        return .request(request)
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        let now = attempt.now
        switch StatusMap.anySuccess.outcome(of: reply.status) {
        case .success:
            do throws(BrokenAnswer) {
                return .token(try token(in: reply, at: now))
            } catch {
                return .failure(error.failure(of: "The token server at \(request.host)", status: reply.status))
            }
        case .transient: return .failure(transient(reply, at: now))
        case .terminal, .unlisted: return .failure(refusal(reply))
        }
    }

    private func token(in reply: TokenReply, at now: Moment) throws(BrokenAnswer) -> TokenSet {
        let json = response.format == .json ? JSONValue(reply.body) : nil
        if response.format == .json, json == nil { throw BrokenAnswer(reason: "the body is not JSON") }
        let place = response.format == .json ? Extraction(source: .json(response.token)) : Extraction(source: .body)
        guard let access = try place.value(in: reply, json: json)?.withValue({ IssuedToken.read($0) }),
            !access.withValue({ $0.contains(" ") || $0.contains("<") })
        else { throw BrokenAnswer(reason: "\(place.place) is missing, or is no token") }
        let token = TokenSet(
            access: access,
            obtainedAt: now.wall,
            expiresAt: try json.flatMap { json throws(BrokenAnswer) in try end(in: json, at: now.wall) }
                ?? now.wall + defaultLifetime
        )
        if let obstacle = placement.obstacle(to: token) { throw BrokenAnswer(reason: obstacle) }
        return token
    }

    private func end(in json: JSONValue, at now: UnixTime) throws(BrokenAnswer) -> UnixTime? {
        if let value = response.expiresAt.value(in: json), value != .null {
            guard let instant = StatedTimes.instant(value) else {
                throw BrokenAnswer(reason: "the value at \(response.expiresAt.text) is not a time")
            }
            return instant
        }
        switch response.expiresIn.value(in: json) {
        case .number(let seconds)?: return try StatedTimes.end(after: String(seconds), from: now)
        case .string(let text)?: return try StatedTimes.end(after: text, from: now)
        default: return nil
        }
    }

    private func transient(_ reply: TokenReply, at now: Moment) -> TokenFailure {
        let wait = reply.retryAfter(at: now)
        return TokenFailure(
            .transient(retryAfter: wait),
            problem: GatewayProblem(
                .tokenTemporarilyUnavailable,
                "The token server at \(request.host) gives no token at the moment (status \(reply.status)); the gateway"
                    + " tries again.",
                cause: cause(of: reply),
                retryAfter: wait
            )
        )
    }

    private func refusal(_ reply: TokenReply) -> TokenFailure {
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
                "The token server at \(request.host) refused to give a token (status \(reply.status)): \(advice)",
                cause: cause(of: reply)
            )
        )
    }

    private func cause(of reply: TokenReply) -> GatewayProblem.Cause {
        let code = JSONValue(reply.body)?["error"]?.string
        return GatewayProblem.Cause(code: OAuthErrorCode.allowListed(code), httpStatus: reply.status)
    }

    func injection(of token: TokenSet) -> Injection { placement.injection(of: token) }
}
