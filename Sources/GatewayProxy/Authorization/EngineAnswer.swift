import GatewayCore

/// What an engine is handed for one generation of a credential on one route. Made once.
final class EngineAnswer {
    /// ``AuthzClient/number``
    let engine: Int
    /// As they are sent in HTTP/1, each with its CRLF: all but `Date` and what says how long the answer may be kept.
    let lines: SecretBytes
    /// As they are sent in answer to a call of gRPC. Made for the first one.
    private(set) lazy var message = CheckResponse.ok(fields, removing: removed)
    /// The audit log knows that the engine was handed this generation.
    var isNoted = false

    private let fields: [Injection.Field]
    /// The client's own fields that must not reach the upstream, and that no field of the answer replaces. In lower case.
    private let removed: [String]

    /// - Parameter source: Of the credential.
    /// - Returns: nil where the credential is not in header fields alone.
    init?(_ route: CredentialedRoute, from source: any CredentialSource, for engine: AuthzClient) {
        guard let credential = route.credential, !credential.injection.fields.isEmpty,
            !credential.injection.hasSecretTarget
        else { return nil }
        self.engine = engine.number
        let plan = route.state.route.plan
        var fields = credential.injection.fields + plan.fields(beside: credential.injection)
        // A credential that stays has none: another call would bring the same.
        if source.isRenewable || source.rejections != nil {
            let mark = engine.mark.value(of: credential, from: source)
            fields.append(Injection.Field(name: EnginePlan.generationField, value: Secret(mark)))
        }
        self.fields = fields
        let replaced = Set(fields.map { $0.name.lowercased() })
        let own = ["Authorization", "Proxy-Authorization"] + EnginePlan.ownFields
        removed = (own + plan.headers.remove).map { $0.lowercased() }.filter { !replaced.contains($0) }
        var lines = fields.flatMap { $0.line.withValue { $0 } }
        if case .envoy = engine.plan.contract {
            lines += Array("X-Envoy-Auth-Headers-To-Remove: \(removed.joined(separator: ", "))\r\n".utf8)
        }
        self.lines = SecretBytes(lines + Array("Content-Length: 0\r\n".utf8))
    }
}

extension RoutePlan {
    /// What the route adds besides its credential.
    fileprivate func fields(beside injection: Injection) -> [Injection.Field] {
        let own = Set(injection.fields.map { FieldSyntax.slot($0.name) })
        let user = asUser.map { [Injection.Field(name: $0.field.name, value: Secret($0.id))] } ?? []
        return user + headers.set.filter { !own.contains(FieldSyntax.slot($0.name)) }
    }
}

extension CredentialedRoute {
    /// - Returns: nil where the credential is not in header fields alone.
    func answer(to engine: AuthzClient, from source: any CredentialSource) -> EngineAnswer? {
        for answer in engineAnswers where answer.engine == engine.number { return answer }
        guard let answer = EngineAnswer(self, from: source, for: engine) else { return nil }
        engineAnswers.append(answer)
        return answer
    }
}
