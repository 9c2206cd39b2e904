import GatewayCore

/// What an engine is handed for one generation of a credential on one route. Made once, as it is sent.
final class EngineAnswer {
    /// ``AskingEngine/number``
    let engine: Int
    /// Lines of HTTP/1, each with its CRLF: all but `Date` and what says how long the answer may be kept.
    let lines: SecretBytes
    /// The audit log knows that the engine was handed this generation.
    var isNoted = false

    /// - Parameter source: Of the credential.
    /// - Returns: nil where the credential is not in header fields alone.
    init?(_ route: CredentialedRoute, from source: any CredentialSource, for engine: AskingEngine) {
        guard let credential = route.credential, !credential.injection.fields.isEmpty,
            !credential.injection.hasSecretTarget
        else { return nil }
        self.engine = engine.number
        var lines = credential.fieldLines.withValue { $0 } + route.routeLines
        // Without it the engine knows that another call would bring the same.
        if source.isRenewable {
            let mark = engine.mark.value(of: credential.generation, from: source)
            lines += Array("\(EnginePlan.generationField): \(mark)\r\n".utf8)
        }
        if case .envoy = engine.plan.contract {
            let names = Self.removed(by: route, credential).joined(separator: ", ")
            lines += Array("X-Envoy-Auth-Headers-To-Remove: \(names)\r\n".utf8)
        }
        lines += Array("Content-Length: 0\r\n".utf8)
        self.lines = SecretBytes(lines)
    }

    /// The client's own fields that must not reach the upstream, and that no field of the answer replaces.
    private static func removed(by route: CredentialedRoute, _ credential: Credential) -> [String] {
        let plan = route.state.route.plan
        let replaced = Set((credential.injection.fields + plan.headers.set).map { $0.name.lowercased() })
        let own = [
            "authorization", "proxy-authorization", EnginePlan.tokenField.lowercased(),
            EnginePlan.rejectedGenerationField.lowercased(),
        ]
        return (own + plan.headers.remove.map { $0.lowercased() }).filter { !replaced.contains($0) }
    }
}

extension CredentialedRoute {
    /// - Returns: nil where the credential is not in header fields alone.
    func answer(to engine: AskingEngine, from source: any CredentialSource) -> EngineAnswer? {
        for answer in engineAnswers where answer.engine == engine.number { return answer }
        guard let answer = EngineAnswer(self, from: source, for: engine) else { return nil }
        engineAnswers.append(answer)
        return answer
    }
}
