import GatewayCore

/// A token of one installation of a GitHub App. It lives an hour, and the gateway asks for the next one.
struct GitHubAppStrategy: AuthStrategy {
    static let kind = "github_app"

    private let grant: GitHubAppGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let app = GitHubApp(in: fields)
        let installation = GitHubInstallation(in: fields)
        let placement = TokenPlacement(in: fields)
        guard let app, let installation, let placement, fields.context.errorCount == errors else { return nil }
        grant = GitHubAppGrant(
            app: app,
            installation: installation,
            placement: placement
        )
    }

    var behavior: AuthBehavior { .token(grant) }
}
