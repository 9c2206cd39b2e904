import GatewayHTTP
import GatewayTokens

/// An answer of STS without keys. Its words are not repeated.
///
/// Sources: docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html, …/API_AssumeRoleWithWebIdentity.html and
/// …/CommonErrors.html.
struct STSRefusal {
    private enum Meaning {
        case passes
        case expired
        case unknownKey
        case wrongSignature
        case wrongTime
        case notAllowed
        case notTrusted
        case policy
        case region
        case value
    }

    /// SDKs and services do not agree on the ending `Exception`.
    private static let meanings: [Substring: Meaning] = [
        "Throttling": .passes, "RequestLimitExceeded": .passes, "RequestThrottled": .passes,
        "ServiceUnavailable": .passes, "InternalFailure": .passes, "InternalError": .passes,
        "IDPCommunicationError": .passes,
        "ExpiredToken": .expired,
        "InvalidClientTokenId": .unknownKey, "UnrecognizedClient": .unknownKey, "InvalidAccessKeyId": .unknownKey,
        "SignatureDoesNotMatch": .wrongSignature, "IncompleteSignature": .wrongSignature,
        "RequestExpired": .wrongTime,
        "AccessDenied": .notAllowed, "NotAuthorized": .notAllowed,
        "InvalidIdentityToken": .notTrusted, "IDPRejectedClaim": .notTrusted,
        "MalformedPolicyDocument": .policy, "PackedPolicyTooLarge": .policy,
        "RegionDisabled": .region, "OptInRequired": .region,
        "ValidationError": .value, "Validation": .value, "MissingParameter": .value, "InvalidParameterValue": .value,
    ]

    private let status: Int
    /// One that is known.
    private let code: Substring?
    private let meaning: Meaning?
    private let wait: Duration?

    init(_ reply: TokenReply, at now: Moment) {
        status = reply.status
        wait = reply.retryAfter(at: now)
        let text = AWSErrorResponse(reply).code ?? ""
        let code = text.hasSuffix("Exception") ? text.dropLast("Exception".count) : text[...]
        meaning = Self.meanings[code]
        self.code = meaning == nil ? nil : code
    }

    func answer(for role: AssumedRole) -> GrantAnswer {
        let isTransient = StatusMap.standard.outcome(of: status) == .transient
        if meaning == .passes || isTransient {
            return .failure(.transient(authority: AssumedRole.authority, status: status, wait: wait))
        }
        let answer = code.map { String($0) } ?? "status \(status)"
        let detail = "\(AssumedRole.authority) refused the role \(role.arn) (\(answer)): \(advice(for: role))"
        let cause = GatewayProblem.Cause(httpStatus: status)
        if meaning == .wrongTime || meaning == .expired && !role.signs {
            // The clock is set, and the token is replaced, without touching the configuration.
            let problem = GatewayProblem(.tokenTemporarilyUnavailable, detail, cause: cause)
            return .failure(TokenFailure(.transient(retryAfter: nil), problem: problem))
        }
        let failure = TokenFailure(.terminal, problem: GatewayProblem(.credentialMisconfigured, detail, cause: cause))
        guard case .parent? = role.caller, meaning == .expired || meaning == .unknownKey else {
            return .failure(failure)
        }
        return .parentRefused(failure)
    }

    private func advice(for role: AssumedRole) -> String {
        switch meaning {
        case .expired where role.signs: "the keys that ask for it have expired; replace them, session_token included."
        case .expired: "the token of web_identity has expired; make its issuer replace it before it expires."
        case .unknownKey:
            "it does not know the keys that ask for it; check access_key_id, and session_token if they are temporary."
        case .wrongSignature: "it does not accept the signature; check secret_access_key."
        case .wrongTime: "the times differ; set this machine's clock (NTP)."
        case .notAllowed where role.signs:
            "the keys that ask for it need the permission sts:AssumeRole, and the role's trust policy has to name them;"
                + " check external_id, too."
        case .notAllowed: "the role's trust policy does not admit the token; check its iss, aud and sub there."
        case .notTrusted:
            "it does not accept the token of web_identity; the account needs an IAM identity provider with the token's iss"
                + " and aud, whose keys AWS can fetch."
        case .policy: "a policy of the session is invalid or too large; check the policies and tags of the role."
        case .region: "the account does not use STS in this region; activate it there, or change region in assume_role."
        case .value:
            "it does not accept a value; check role_arn, session_name and external_id, and that duration is at most the"
                + " maximum session duration of the role."
        case .passes, nil:
            (300..<400).contains(status)
                ? "a redirect is never followed; set token_url to the final address." : "check token_url and role_arn."
        }
    }
}
