import GatewayCore

/// The credential that a request would get, with a description in the place of each secret.
struct JudgedCredential: Sendable {
    let use: RequestJudgement.CredentialUse
    /// nil where there is none to inject now.
    let masked: Credential?
    let source: (any CredentialSource)?
    let isSentOnChallengeOnly: Bool

    /// nil for a route that injects nothing.
    ///
    /// - Parameters:
    ///   - chosen: The source that the request has chosen, if there is one already.
    ///   - subject: Whose token the request goes with.
    init?(of route: CompiledRoute, chosen: (any CredentialSource)?, subject: String?, at now: MonotonicTime) {
        source = chosen ?? route.source
        guard let source else {
            // Nobody has asked for this subject lately, so that its token would be looked for first.
            guard let selection = route.selection, let subject else { return nil }
            use = Self.use("\(selection.name)[\(subject)]", selection.strategy, hasToken: true, .awaited)
            masked = nil
            isSentOnChallengeOnly = false
            return
        }
        switch source.outlook(at: now) {
        case .ready(let credential):
            let text = RequestJudgement.CredentialUse.placeholder(
                source.name,
                generation: credential.generation,
                hasToken: Self.hasToken(source)
            )
            let injection = credential.injection.masked(as: text)
            masked = Credential(name: source.name, generation: credential.generation, injection: injection)
            isSentOnChallengeOnly = source is ChallengeCredentialSource && injection.fields.isEmpty
            use = Self.use(source, .ready(generation: credential.generation), injection)
        case .wait:
            masked = nil
            isSentOnChallengeOnly = false
            use = Self.use(source, .awaited)
        case .unavailable(let problem):
            masked = nil
            isSentOnChallengeOnly = false
            use = Self.use(source, .unavailable(problem))
        }
    }

    private static func hasToken(_ source: any CredentialSource) -> Bool {
        !(source is FixedCredentialSource || source is ChallengeCredentialSource)
    }

    private static func use(
        _ source: any CredentialSource,
        _ answer: RequestJudgement.CredentialUse.Answer,
        _ injection: Injection = Injection()
    ) -> RequestJudgement.CredentialUse {
        use(source.name, source.strategy, hasToken: hasToken(source), answer, injection)
    }

    private static func use(
        _ name: String,
        _ strategy: String,
        hasToken: Bool,
        _ answer: RequestJudgement.CredentialUse.Answer,
        _ injection: Injection = Injection()
    ) -> RequestJudgement.CredentialUse {
        RequestJudgement.CredentialUse(
            name: name,
            strategy: strategy,
            hasToken: hasToken,
            answer: answer,
            fields: injection.fields.map { field in .init(field.name, field.value.withValue { $0 }) },
            parameter: injection.query?.name
        )
    }
}

extension Injection {
    /// Schemes of `Authorization` whose name stays readable.
    private static let schemes: Set<String> = ["apikey", "basic", "bearer", "dpop", "key", "token"]

    fileprivate func masked(as text: String) -> Injection {
        var masked = self
        masked.fields = fields.map { field in
            let scheme = field.value.withValue { String($0.prefix { $0 != " " }) }
            let isKnown = Self.schemes.contains(scheme.lowercased())
            return Field(name: field.name, value: Secret(isKnown ? "\(scheme) \(text)" : text))
        }
        masked.query = query.map { QueryParameter(name: $0.name, value: Secret("token")) }
        return masked
    }
}
