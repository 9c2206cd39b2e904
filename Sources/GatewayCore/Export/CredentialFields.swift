/// The names of the fields that a credential adds to requests. Its values are not looked at.
struct CredentialFields: Sendable {
    let names: [String]
    /// Fields that clients may not send beside the credential, or that name the subject of a request to the gateway alone.
    let alsoRemoved: [String]
    /// Whether a rejected credential can be renewed.
    let hasGenerations: Bool

    init(of credential: CredentialPlan, at place: String) throws(ExportProblem) {
        let injection: Injection
        var alsoRemoved = type(of: credential.strategy).ownedFields
        switch credential.strategy.behavior {
        case .fixed(let fixed):
            injection = fixed
            hasGenerations = false
        case .token(let grant):
            injection = grant.injection(of: Self.example)
            hasGenerations = true
        case .tokenPerSubject(let grants):
            // Its form is the same for all subjects.
            injection = grants.grant(for: "example").injection(of: Self.example)
            alsoRemoved.append(grants.field)
            hasGenerations = true
        case .none, .onChallenge, .tokenPerChallenge:
            throw ExportProblem(
                place,
                "\(credential.strategyKind) adds no field that is known before the upstream answers; leave the route out."
            )
        }
        guard !injection.hasSecretTarget else {
            throw ExportProblem(
                place,
                "\(credential.strategyKind) puts its credential into the URL; a proxy is handed header fields only."
            )
        }
        names = injection.fields.map(\.name)
        self.alsoRemoved = alsoRemoved
    }

    private static let example = TokenSet(access: Secret("example"), obtainedAt: UnixTime(milliseconds: 0))
}
