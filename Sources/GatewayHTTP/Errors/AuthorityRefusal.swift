/// What the error codes of authorization servers mean. The codes are those that the gateway repeats in its log and the audit log.
enum AuthorityRefusal: CaseIterable {
    case client, grant, request, person, user, passing, device, other

    var codes: [String] {
        switch self {
        case .client:
            [
                "invalid_client", "unauthorized_client", "incorrect_client_credentials", "invalid_client_id",
                "bad_client_secret",
            ]
        case .grant:
            [
                "invalid_grant", "invalid_token", "expired_token", "token_expired", "token_revoked", "revoked_token",
                "token_inactive", "bad_refresh_token", "invalid_refresh_token", "expired_refresh_token",
                "refresh_token_expired", "refresh_token_revoked", "session_expired", "bad_verification_code",
            ]
        case .request:
            [
                "invalid_request", "invalid_scope", "invalid_target", "insufficient_scope", "unsupported_grant_type",
                "unsupported_response_type", "redirect_uri_mismatch", "redirect_uri_missing",
            ]
        case .person:
            [
                "interaction_required", "login_required", "consent_required", "account_selection_required",
                "mfa_required",
            ]
        case .user: ["access_denied", "account_deactivated", "user_disabled", "user_not_found"]
        case .passing: ["server_error", "temporarily_unavailable", "slow_down", "authorization_pending"]
        case .device:
            [
                "unauthorized_device", "exceeded_device_limits", "missing_device_id",
                "unsupported_device_pinning_runtime",
            ]
        case .other: ["other"]
        }
    }

    var title: String {
        switch self {
        case .client: "The authorization server does not accept the client"
        case .grant: "The grant or token is no longer valid"
        case .request: "The authorization server does not accept the request"
        case .person: "A person must log in or consent"
        case .user: "The authorization server refuses this user"
        case .passing: "The authorization server is failing"
        case .device: "The authorization server does not accept the device"
        case .other: "A code that the gateway does not repeat"
        }
    }

    var advice: ErrorAdvice {
        switch self {
        case .client:
            ErrorAdvice(
                "The authorization server does not know client_id, the secret is wrong, or the app may not use this grant.",
                .operator,
                "Compare client_id and secret with the server's console, then try again.",
                "authgateway reload",
                "authgateway token refresh NAME"
            )
        case .grant:
            ErrorAdvice(
                "The refresh token, code or session was used before, has expired, or was revoked.",
                .operator,
                "Log in again, or import a new token. Where possible, the gateway gets a new token itself.",
                "authgateway login NAME",
                "authgateway token import NAME"
            )
        case .request:
            ErrorAdvice(
                "The authorization server does not accept a scope, the redirect URI or another parameter of the credential.",
                .operator,
                "Log in again if earlier renewals worked: the refresh token may have expired. Otherwise compare the credential with"
                    + " the server's console, then try again.",
                "authgateway status NAME",
                "authgateway login NAME",
                "authgateway token refresh NAME"
            )
        case .person:
            ErrorAdvice(
                "The authorization server requires a person to log in, consent or enter a second factor.",
                .operator,
                "Log in with a browser.",
                "authgateway login NAME"
            )
        case .user:
            ErrorAdvice(
                "The person declined, or the account is disabled or unknown.",
                .authority,
                "Ask the administrator of the account.",
                "authgateway audit query --credential NAME"
            )
        case .passing:
            ErrorAdvice(
                "The authorization server cannot answer now, or wants fewer requests.",
                .time,
                "The gateway retries by itself, after 1 to 60 seconds.",
                "authgateway status NAME"
            )
        case .device:
            ErrorAdvice(
                "The authorization server accepts only known devices.",
                .authority,
                "Ask the administrator to allow this device or this app.",
                "authgateway status NAME"
            )
        case .other:
            ErrorAdvice(
                "The authorization server sent a code that the gateway does not know. It is not repeated, because it could contain a secret.",
                .operator,
                "Read the server's message in the status of the credential.",
                "authgateway status NAME"
            )
        }
    }
}
