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
            // No request has named this subject lately: its token would be loaded first.
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
                hasToken: source.fixed == nil
            )
            let (injection, values) = credential.injection.masked(as: text)
            let fields = values.map { DescribedRequest.Field($0.name, $0.value) }
            masked = Credential(name: source.name, generation: credential.generation, injection: injection)
            isSentOnChallengeOnly = source is any ChallengeAnswering && fields.isEmpty
            use = Self.use(source, .ready(generation: credential.generation), fields, injection.query?.name)
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

    private static func use(
        _ source: any CredentialSource,
        _ answer: RequestJudgement.CredentialUse.Answer,
        _ fields: [DescribedRequest.Field] = [],
        _ parameter: String? = nil
    ) -> RequestJudgement.CredentialUse {
        use(source.name, source.strategy, hasToken: source.fixed == nil, answer, fields, parameter)
    }

    private static func use(
        _ name: String,
        _ strategy: String,
        hasToken: Bool,
        _ answer: RequestJudgement.CredentialUse.Answer,
        _ fields: [DescribedRequest.Field] = [],
        _ parameter: String? = nil
    ) -> RequestJudgement.CredentialUse {
        RequestJudgement.CredentialUse(
            name: name,
            strategy: strategy,
            hasToken: hasToken,
            answer: answer,
            fields: fields,
            parameter: parameter
        )
    }
}
