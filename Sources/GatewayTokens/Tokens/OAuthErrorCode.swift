/// Error codes of authorities that may be repeated in logs, the audit table and problem documents.
///
/// RFC 6749 §4.1.2.1 and §5.2, RFC 6750 §3.1, RFC 8628 §3.5, RFC 8693 §2.2.2, OpenID Connect Core §3.1.2.6, and those that
/// Box, GitHub and other authorities add. Anything else an
/// authority sends is `other`: its text is not ours to repeat.
package enum OAuthErrorCode {
    package static let known: Set<String> = [
        "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
        "invalid_scope", "access_denied", "unsupported_response_type", "server_error", "temporarily_unavailable",
        "invalid_token", "insufficient_scope", "invalid_target", "authorization_pending", "slow_down", "expired_token",
        "unauthorized_device", "exceeded_device_limits", "missing_device_id", "unsupported_device_pinning_runtime",
        "account_deactivated", "interaction_required", "login_required", "account_selection_required",
        "consent_required", "redirect_uri_mismatch", "redirect_uri_missing", "mfa_required", "bad_refresh_token",
        "bad_verification_code", "token_expired", "token_revoked", "token_inactive", "refresh_token_expired",
        "refresh_token_revoked", "invalid_refresh_token", "expired_refresh_token", "revoked_token", "session_expired",
        "user_disabled", "user_not_found", "incorrect_client_credentials", "invalid_client_id", "bad_client_secret",
    ]

    package static func allowListed(_ code: String?) -> String? {
        guard let code else { return nil }
        return known.contains(code) ? code : "other"
    }
}
