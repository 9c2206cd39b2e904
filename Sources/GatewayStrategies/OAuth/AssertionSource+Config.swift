import GatewayCore

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
            return audience.flatMap { own.gitHubIdentity(for: $0) }.map { .gitHubActions($0) }
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

    /// The runner of GitHub Actions says where the assertion is, and this process has to see what it says.
    private func gitHubIdentity(for audience: String) -> GitHubIdentityRequest? {
        let url = context.secrets.environment(GitHubIdentityRequest.Variable.url.rawValue)
        let token = context.secrets.environment(GitHubIdentityRequest.Variable.token.rawValue)
        if let span = node("github_actions")?.span { context.noteSecret(at: span) }
        guard let url, let token, !url.isEmpty, FieldSyntax.isValue(token) else {
            let names = GitHubIdentityRequest.Variable.allCases.map(\.rawValue).joined(separator: " and ")
            error(
                "github_actions",
                "\(names) are not set: run the gateway in a job of GitHub Actions that has \"permissions: id-token: write\""
            )
            return nil
        }
        do throws(AuthorityURL.Refusal) {
            return try GitHubIdentityRequest(base: url, audience: audience, token: Secret(token))
        } catch {
            self.error("github_actions", "\(GitHubIdentityRequest.Variable.url.rawValue) is not an https URL")
            return nil
        }
    }
}
