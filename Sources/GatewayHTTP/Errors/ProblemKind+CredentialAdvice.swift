extension ProblemKind {
    /// Tokens, and who hands them out.
    var credentialAdvice: ErrorAdvice {
        switch self {
        case .tokenEndpointUnreachable:
            ErrorAdvice(
                "The gateway cannot connect to the token endpoint. The detail names the host.",
                .operator,
                "Check the name, the network and the certificate. doctor tries each of them.",
                "authgateway doctor",
                "authgateway status NAME"
            )
        case .tokenEndpointTimeout:
            ErrorAdvice(
                "The token endpoint did not answer within limits.credential_timeout.",
                .authority,
                "The gateway tries again by itself. If the authority is always slow, raise the limit.",
                "authgateway status NAME"
            )
        case .tokenTemporarilyUnavailable:
            ErrorAdvice(
                "The authority fails at the moment or sends no usable token, and no token is left.",
                .authority,
                "The gateway tries again by itself, after 1 to 60 seconds. This tries at once.",
                "authgateway token refresh NAME"
            )
        case .storeUnavailable:
            ErrorAdvice(
                "The token store does not work, so a refresh token that is valid once is not sent.",
                .operator,
                "Mend the store that the log names. The gateway goes on by itself when the store works again.",
                "authgateway status"
            )
        case .reauthorizationRequired:
            ErrorAdvice(
                "The authority does not accept the refresh token or the grant any more.",
                .operator,
                "Log in again, or import a new token.",
                "authgateway login NAME",
                "authgateway token import NAME"
            )
        case .credentialMisconfigured:
            ErrorAdvice(
                "The authority says that id, secret, scope or address of the credential is wrong.",
                .operator,
                "Read what the authority said, correct the configuration or the secret, then try again.",
                "authgateway status NAME",
                "authgateway token refresh NAME"
            )
        case .loginRequired:
            ErrorAdvice(
                "The credential speaks for a person, and that person has not logged in.",
                .operator,
                "Log in with a browser.",
                "authgateway login NAME"
            )
        case .loginFailed:
            ErrorAdvice(
                "A login ended without a token. The event login_failed has the reason.",
                .operator,
                "Read the reason, then log in again.",
                "authgateway audit query --event login_failed",
                "authgateway login NAME"
            )
        case .staticTokenExpired:
            ErrorAdvice(
                "The token has ended, and the gateway cannot renew it.",
                .operator,
                "Get a new token from the service, and import it.",
                "authgateway token import NAME"
            )
        case .locked:
            ErrorAdvice(
                "Somebody locked the credential. It is neither sent nor renewed.",
                .operator,
                "Find out why it was locked. Then unlock it.",
                "authgateway audit query --credential NAME",
                "authgateway token unlock NAME"
            )
        default:
            ErrorAdvice(
                "A new token could not be recorded in the audit log, so it is not used.",
                .operator,
                "Make room on the disk, or end the process that locks the database.",
                "authgateway status",
                "authgateway doctor"
            )
        }
    }
}
