import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// One request of a recipe, what its answer means, and what is taken from it.
struct RecipeStep: Sendable {
    struct Output: Hashable, Sendable {
        let name: String
        let extraction: Extraction

        private static let ends: Set<String> = ["expires_in", "expires_at"]

        /// nil if it is optional and absent.
        func value(
            in reply: TokenReply,
            json: JSONValue?,
            from url: AuthorityURL?,
            at now: UnixTime
        ) throws(BrokenAnswer) -> Secret? {
            // No good token is lost for its end. An empty one is remarked upon, like any that cannot be read.
            if Self.ends.contains(name), extraction.isDamaged(in: json) { return Secret("") }
            let value = try extraction.value(in: reply, json: json, from: url, at: now)
            guard value != nil || extraction.isOptional else {
                throw BrokenAnswer(reason: "\(extraction.place) is missing")
            }
            return value
        }
    }

    /// Something in a JSON answer that tells success where the status does not.
    private struct Success: Hashable {
        let pointer: JSONPointer
        let expected: String
    }

    let request: RequestTemplate
    let outputs: [Output]
    private let statuses: StatusMap
    private let success: Success?

    /// - Parameter scope: What is known before this step; what the step yields is added.
    init?(_ fields: ConfigFields, scope: inout TemplateScope, reserved: Set<String>) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let request = RequestTemplate(in: fields, scope: scope)
        statuses = StatusMap(in: fields)
        success = Self.success(in: fields)
        outputs = Self.outputs(in: fields, reserved: reserved)
        scope.names.formUnion(outputs.map(\.name))
        fields.refuseUnknownKeys()
        guard let request, fields.context.errorCount == errors else { return nil }
        self.request = request
    }

    private static func success(in fields: ConfigFields) -> Success? {
        guard let own = fields.fields("success") else { return nil }
        own.explain([
            "json": KeyMeaning("A JSON pointer (RFC 6901) to the value.", example: "/ok"),
            "equals": KeyMeaning("What the value must be.", example: "true"),
        ])
        defer { own.refuseUnknownKeys() }
        for key in ["json", "equals"] where !own.has(key) { own.missing(key) }
        guard let text = own.string("json"), let expected = own.scalar("equals")?.scalar.text else { return nil }
        guard let pointer = JSONPointer(text) else {
            own.error("json", "expected a JSON pointer such as /ok (RFC 6901)")
            return nil
        }
        return Success(pointer: pointer, expected: expected)
    }

    private static func outputs(in fields: ConfigFields, reserved: Set<String>) -> [Output] {
        guard let own = fields.fields("outputs") else { return [] }
        own.explain([
            KeyMeaning.anyName: KeyMeaning(
                "A JSON pointer, or exactly one of json, header, cookie, body and regex. regex can also go with header.",
                example: "{json: /data/token}"
            )
        ])
        return own.chosenNames().compactMap { name in
            guard Template.isName(name) else {
                own.error(name, "a name has letters, digits, \"_\", \"-\" and \".\", at most 64")
                return nil
            }
            guard !reserved.contains(name) else {
                own.error(name, "\"\(name)\" is already the name of a value, a secret or the current token")
                return nil
            }
            return Extraction(name, in: own).map { Output(name: name, extraction: $0) }
        }
    }

    /// A page on the way to a token, a form for example: nothing is asked of an authorization server there.
    var onlyReads: Bool {
        request.method == .get && !outputs.contains { $0.name == "token" || $0.name == "renewal" }
    }

    enum StepOutcome {
        case success([String: Secret])
        /// With what was found all the same.
        case broken(BrokenAnswer, [String: Secret])
        case transient
        /// - isFinal: The recipe says that the authorization server no longer knows what was presented.
        case refused(isFinal: Bool)
    }

    /// What an answer means that refuses a refresh: what the recipe says, or else what authorization servers mean by it.
    func refreshError(_ reply: TokenReply) -> RefreshError {
        // A 2xx without an error was refused by the recipe's own test.
        let error = RefreshError(reply) ?? .refused
        return statuses.states(reply.status, .terminal) && error != .personNeeded ? .refused : error
    }

    func outcome(of reply: TokenReply, at now: UnixTime) -> StepOutcome {
        switch statuses.outcome(of: reply.status) {
        case .transient: return .transient
        case .terminal: return .refused(isFinal: statuses.states(reply.status, .terminal))
        case .unlisted: return .refused(isFinal: false)
        case .success: break
        }
        let json = reply.document
        var broken: BrokenAnswer?
        if let success {
            let found = json.flatMap(success.pointer.value(in:))
            if let found, !found.isDamaged {
                guard found.plainText == success.expected else { return .refused(isFinal: false) }
            } else {
                broken = BrokenAnswer(reason: "there is no usable \(success.pointer.text) in it")
            }
        }
        let url = request.destination
        var values: [String: Secret] = [:]
        for output in outputs {
            do throws(BrokenAnswer) {
                values[output.name] = try output.value(in: reply, json: json, from: url, at: now)
            } catch {
                broken = broken ?? error
            }
        }
        return broken.map { StepOutcome.broken($0, values) } ?? .success(values)
    }
}

extension RecipeStep {
    private static let meanings: [String: KeyMeaning] = [
        "url": KeyMeaning(
            "The URL. Templates are filled in, but scheme, host and port cannot depend on secrets or responses.",
            example: "https://portal.example.com/login"
        ),
        "method": KeyMeaning("The method.", default: "GET, or POST with a body", example: "POST"),
        "headers": KeyMeaning("Header fields. Templates are filled in.", default: "{}", example: "{X-Device: web}"),
        "basic": KeyMeaning(
            "A user name and a password for Basic authentication (RFC 7617).",
            example: "{username: me, password: {env: PORTAL_PASSWORD}}"
        ),
        "body": KeyMeaning("The body: exactly one of form, json and text.", example: "{form: {user: me}}"),
        "status": KeyMeaning(
            "What a status of the response means. By default, any 2xx is a success.",
            example: "success: [200]\nterminal: [400, 410]"
        ),
        "success": KeyMeaning(
            "A value in a JSON response that means success, for APIs that answer 200 to everything.",
            example: "{json: /ok, equals: true}"
        ),
        "outputs": KeyMeaning(
            "What to take from the response, by the names that later steps use as {{name}}.",
            example: "{device: /data/device}"
        ),
    ]
}

extension JSONValue {
    /// A scalar as a configuration would write it.
    fileprivate var plainText: String? {
        switch self {
        case .null: "null"
        case .bool(let value): String(value)
        case .number(let number): number.whole.map { String($0) } ?? number.text
        case .string(let text): text
        case .array, .object, .conflict: nil
        }
    }
}

/// The steps of `revoke`, one after the other, as those that obtain a token.
extension RecipeGrant {
    func revocation(in attempt: GrantAttempt) -> RevocationStep {
        guard !revoke.isEmpty else { return .impossible("The recipe has no \"revoke\"; add it.") }
        return step(revoke, 0, attempt).map { .request($0) }
            ?? .impossible("The recipe's \"revoke\" uses something that came with another token than this one.")
    }

    func interpretRevocation(_ reply: TokenReply, in attempt: inout GrantAttempt) -> RevocationAnswer {
        let index = attempt.answers - 1
        guard revoke.indices.contains(index) else { return .failure(unwritable.problem) }
        let step = revoke[index]
        switch step.outcome(of: reply, at: attempt.now.wall) {
        case .success(let outputs):
            attempt.outputs.merge(outputs) { $1 }
            guard index + 1 < revoke.count else { return .revoked }
            return self.step(revoke, index + 1, attempt).map { .next($0) } ?? .failure(unwritable.problem)
        case .broken(let answer, _):
            let detail =
                "\(name(of: index, step)) answered \(reply.status), but not as the recipe expects: \(answer.reason)."
            let cause = GatewayProblem.Cause(httpStatus: reply.status)
            return .failure(GatewayProblem(.tokenTemporarilyUnavailable, detail, cause: cause))
        case .transient, .refused:
            // Only where the token itself was shown can "unknown" be about it.
            if step.showsToken, reply.saysThatTheTokenIsUnknown { return .revoked }
            return .failure(reply.refusalToRevoke(by: name(of: index, step)))
        }
    }

    private func name(of index: Int, _ step: RecipeStep) -> String {
        revoke.count == 1 ? step.request.host : "\(step.request.host) (step \(index + 1) of \"revoke\")"
    }
}

extension RecipeStep {
    fileprivate var showsToken: Bool { !request.names.isDisjoint(with: ["token", "renewal"]) }
}
