import GatewayTokens

/// What all of Box's grants have in common.
enum BoxAuthority {
    static let authorizeURL = "https://account.box.com/api/oauth2/authorize"
    static let tokenURL = "https://api.box.com/oauth2/token"
    static let revokeURL = "https://api.box.com/oauth2/revoke"

    private static let console = "the Box developer console (https://app.box.com/developers/console)"

    static let userField = UserField(
        name: "As-User",
        advice:
            "as_user needs the token of a service account or an administrator, and \"Make API calls using the as-user header\""
            + " among the app's settings in Box's developer console, authorized again after the change; or this call needs a"
            + " scope that the app lacks",
        meaning: "Sends As-User with this user ID (Box). The token stays the same."
    )

    private static let wrongClient = OAuthErrors.Advice(
        code: "invalid_client",
        text: "client_id or client_secret is wrong; compare both with the Configuration tab of \(console)."
    )

    static let loginErrors = OAuthErrors(
        authority: "Box",
        advice: [
            wrongClient,
            OAuthErrors.Advice(
                code: "unauthorized_client",
                text: "the app has not enabled this grant; choose User Authentication (OAuth 2.0) in \(console)."
            ),
        ]
    )

    static let errors = OAuthErrors(
        authority: "Box",
        advice: [
            wrongClient,
            OAuthErrors.Advice(
                code: "unauthorized_client",
                marker: "enterprise admin",
                text: "the app is not authorized by the enterprise admin; an admin authorizes it, and again after each "
                    + "change of the app, in the Admin Console under Integrations > Platform Apps Manager."
            ),
            OAuthErrors.Advice(
                code: "unauthorized_client",
                marker: "box_subject_type",
                text: "the app may not act for this kind of subject; user subjects need \"Generate user access "
                    + "tokens\" in \(console), and then a new authorization by an admin."
            ),
            OAuthErrors.Advice(
                code: "unauthorized_client",
                text: "the app has not enabled this grant, or no admin has authorized it; choose Server Authentication "
                    + "(Client Credentials Grant) in \(console) and let an admin authorize the app."
            ),
            OAuthErrors.Advice(
                code: "invalid_request",
                marker: "grant type is unauthorized",
                text: "the app has not enabled this grant; choose Server Authentication (Client Credentials Grant) in "
                    + "\(console)."
            ),
            OAuthErrors.Advice(
                code: "invalid_grant",
                text: "check client_id, client_secret and the subject's ID; the app's access level must cover the "
                    + "subject (App + Enterprise Access for managed users), \"Generate user access tokens\" must be on "
                    + "for user subjects, and an admin must authorize the app again after each change."
            ),
        ]
    )
}

extension ExchangeTerms {
    /// Box exchanges tokens without a client of its own.
    static let box = ExchangeTerms(authority: "Box", requiresScopes: true, takesSharedLinks: true)
}
