/// Who may ask for tokens, and the credentials with which a sandbox starts.
///
/// Ids and secrets are the same in every sandbox; what an authority would have issued (the seeds) is new each time.
struct Accounts: Sendable {
    struct Client: Sendable {
        let id: String
        let secret: String
    }

    let boxClients = [
        Client(id: "sandbox-box-client", secret: "sandbox-box-secret"),
        // Breaks clients that do not escape a secret in a form.
        Client(id: "odd-client", secret: "o+d &s=e%cret/é"),
    ]
    let oauthClients = [
        Client(id: "sandbox-oauth-client", secret: "sandbox-oauth-secret"),
        Client(id: "odd-client", secret: "o+d &s=e%cret/é"),
    ]
    let oauthScopes = ["read", "write"]
    /// Who logs in at the OAuth server with a password.
    let oauthUser = "sandbox-person"
    let oauthPassword = "sandbox-passphrase"
    let boxEnterprise = "1000001"
    /// The service account that an enterprise token speaks as.
    let boxServiceAccount = "3000001"
    let boxUsers = ["2000001": "Ada Sandbox", "2000002": "Ben Sandbox"]
    let dukeClients = ["dukemobile", "wearduke"]
    let netID = "ds123"
    let upstreamUser = "sandbox-user"
    let upstreamPassword = "sandbox-password"
    let upstreamToken = "sandbox-upstream-token"
    let upstreamAPIKey = "sandbox-upstream-api-key"

    func environment(seeds: Seeds, addresses: Sandbox.Addresses) -> [String: String] {
        [
            // What a configuration includes for its routes to the sandbox: `include: ${SANDBOX_ROUTES:-}`.
            "SANDBOX_ROUTES": "sandbox.yaml",
            "SANDBOX_BOX_URL": addresses.box,
            "SANDBOX_BOX_DOWNLOADS_URL": addresses.boxDownloads,
            "SANDBOX_DUKE_URL": addresses.duke,
            "SANDBOX_OAUTH_URL": addresses.oauth,
            "SANDBOX_UPSTREAM_URL": addresses.upstream,
            "SANDBOX_BOX_CLIENT_ID": boxClients[0].id,
            "SANDBOX_BOX_CLIENT_SECRET": boxClients[0].secret,
            "SANDBOX_BOX_APP_SETTINGS": boxAppSettings.text,
            "SANDBOX_BOX_ENTERPRISE_ID": boxEnterprise,
            "SANDBOX_BOX_USER_ID": "2000001",
            "SANDBOX_BOX_DEVELOPER_TOKEN": seeds.boxDeveloperToken,
            "SANDBOX_BOX_REFRESH_TOKEN": seeds.boxRefreshToken,
            "SANDBOX_DUKE_CLIENT": dukeClients[0],
            "SANDBOX_DUKE_ACCESS_TOKEN": seeds.dukeAccessToken,
            "SANDBOX_DUKE_SESSION_TOKEN": seeds.dukeSessionToken,
            "SANDBOX_OAUTH_CLIENT_ID": oauthClients[0].id,
            "SANDBOX_OAUTH_CLIENT_SECRET": oauthClients[0].secret,
            "SANDBOX_OAUTH_SCOPES": oauthScopes.joined(separator: " "),
            "SANDBOX_OAUTH_REFRESH_TOKEN": seeds.oauthRefreshToken,
            "SANDBOX_OAUTH_USER": oauthUser,
            "SANDBOX_OAUTH_PASSWORD": oauthPassword,
            "SANDBOX_UPSTREAM_USER": upstreamUser,
            "SANDBOX_UPSTREAM_PASSWORD": upstreamPassword,
            "SANDBOX_UPSTREAM_TOKEN": upstreamToken,
            "SANDBOX_UPSTREAM_API_KEY": upstreamAPIKey,
        ]
    }
}

/// Tokens that exist from the start; each reset revives them under the same value.
struct Seeds: Sendable {
    var boxDeveloperToken = ""
    var boxRefreshToken = ""
    var oauthRefreshToken = ""
    var dukeAccessToken = ""
    var dukeSessionToken = ""
}
