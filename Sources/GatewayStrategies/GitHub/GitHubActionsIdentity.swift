import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Variables that the runner of GitHub Actions sets in a job with the permission `id-token: write`: "OpenID Connect reference" in
/// docs.github.com/actions.
private enum GitHubActionsVariable: String, CaseIterable {
    case url = "ACTIONS_ID_TOKEN_REQUEST_URL"
    /// Good for this job.
    case token = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
}

extension ConfigFields {
    /// The service that tells a job of GitHub Actions who it is. The runner says where it is, and this process has to see what it says.
    func gitHubActions(for audience: String) -> AssertionService? {
        let url = context.secrets.environment(GitHubActionsVariable.url.rawValue)
        let token = context.secrets.environment(GitHubActionsVariable.token.rawValue)
        if let span = node("github_actions")?.span { context.noteSecret(at: span) }
        guard let url, let token, !url.isEmpty, FieldSyntax.isValue(token) else {
            let names = GitHubActionsVariable.allCases.map(\.rawValue).joined(separator: " and ")
            error(
                "github_actions",
                "\(names) are not set: run the gateway in a job of GitHub Actions that has \"permissions: id-token: write\""
            )
            return nil
        }
        do throws(AuthorityURL.Refusal) {
            return try AssertionService(
                key: "github_actions",
                base: url,
                audience: audience,
                token: Secret(token),
                advice: "the job may have ended"
            )
        } catch {
            self.error("github_actions", "\(GitHubActionsVariable.url.rawValue) is not an https URL")
            return nil
        }
    }
}
