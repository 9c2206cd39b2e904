import GatewayConfiguration
import GatewayTokens

extension ConfigFields {
    /// An assertion that others issue: `{file: PATH}` or `{github_actions: {audience: AUDIENCE}}`. nil after a mistake.
    func requiredAssertion(_ key: String) -> AssertionSource? {
        hideUnlessMapping(key)
        if !has(key) { missing(key) }
        guard let own = fields(key) else { return nil }
        defer { own.refuseUnknownKeys() }
        own.explain(SharedMeanings.assertion)
        let file = own.filePath("file")
        let audience = own.gitHubAudience()
        switch (own.has("file"), own.has("github_actions")) {
        case (true, false): return file.map { .file($0) }
        case (false, true):
            return audience.flatMap { own.gitHubActions(for: $0) }.map { .service($0) }
        case (true, true), (false, false):
            own.error("comes from exactly one of file and github_actions")
            return nil
        }
    }

    private func gitHubAudience() -> String? {
        guard let own = fields("github_actions") else { return nil }
        defer { own.refuseUnknownKeys() }
        own.explain(SharedMeanings.gitHubActions)
        return own.requiredString("audience")
    }
}
