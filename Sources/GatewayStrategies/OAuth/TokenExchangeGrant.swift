import GatewayHTTP
import GatewayTokens

/// Exchanges the parent's token, or one that others issue. Renewed by asking again, with the token that there is by then.
struct TokenExchangeGrant: BearerGrant {
    private static let grantType = "urn:ietf:params:oauth:grant-type:token-exchange"
    private static let tokenType = "urn:ietf:params:oauth:token-type:access_token"

    let options: ExchangeOptions
    /// nil until the parent is known; such a grant asks nothing.
    private let parent: (any TokenGrant)?
    /// nil where there is a parent.
    private let subject: SubjectToken?
    private let point: ExchangePoint?

    init(options: ExchangeOptions) {
        self.options = options
        parent = nil
        subject = nil
        point = nil
    }

    init(options: ExchangeOptions, parent: any TokenGrant, point: ExchangePoint) {
        self.options = options
        self.parent = parent
        subject = nil
        self.point = point
    }

    init(options: ExchangeOptions, subject: SubjectToken, point: ExchangePoint) {
        self.options = options
        parent = nil
        self.subject = subject
        self.point = point
    }

    var identity: GrantIdentity {
        let parent = parent?.identity
        var identity = GrantIdentity(strategy: TokenExchangeStrategy.kind, subject: parent?.subject)
        if let point {
            identity.add("token_url", point.url.text)
            point.client?.addInputs(to: &identity)
        }
        options.addInputs(to: &identity)
        identity.add("parent.strategy", parent?.strategy)
        if let parent { identity.add(parent: parent) }
        if let subject {
            subject.source.addInputs(to: &identity, as: "subject_token")
            identity.add("subject_token_type", subject.type)
        }
        return identity
    }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        guard let point else { return Self.nothingToExchange }
        let grantType = TokenRequest.Parameter("grant_type", Self.grantType)
        if let subject {
            let form = [grantType, TokenRequest.Parameter("subject_token_type", subject.type)] + options.form
            return step(
                form,
                at: point,
                in: attempt,
                [TokenRequest.IssuedParameter("subject_token", from: subject.source)]
            )
        }
        guard let token = attempt.parentToken else { return Self.nothingToExchange }
        let form = [
            grantType,
            TokenRequest.Parameter("subject_token", token),
            TokenRequest.Parameter("subject_token_type", Self.tokenType),
        ]
        return step(form + options.form, at: point, in: attempt)
    }

    private func step(
        _ form: [TokenRequest.Parameter],
        at point: ExchangePoint,
        in attempt: GrantAttempt,
        _ issued: [TokenRequest.IssuedParameter] = []
    ) -> GrantStep {
        var request = TokenRequest(url: point.url, body: .form(form))
        request.issuedParameters = issued
        guard let client = point.client else { return .request(request) }
        return GrantStep { () throws(TokenFailure) in try client.authenticate(request, in: attempt) }
    }

    private static let nothingToExchange = GrantStep.impossible(
        TokenFailure(.terminal, problem: GatewayProblem(.internalError, "There is no parent token to exchange."))
    )

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        if let repair = point?.client?.repair(after: reply, in: attempt, sign: firstStep) { return repair }
        if subject != nil { return Self.subjectErrors.advising(point?.client).answer(reply, in: &attempt) }
        let answer = Self.errors(of: authority).advising(point?.client).answer(reply, in: &attempt)
        guard case .failure(let failure) = answer, case .terminal = failure.class else { return answer }
        if refusesParent(reply) { return .parentRefused(failure) }
        return lacksScopes(reply) ? .failure(scopeFailure(reply, failure)) : answer
    }

    /// Whether the authorization server says that the parent's token is no longer valid. A bare 401 does not: Box answers so when the
    /// parent lacks a scope, and renewing it would change nothing.
    private func refusesParent(_ reply: TokenReply) -> Bool {
        let answer = reply.document
        switch answer?["error"]?.string {
        case "invalid_grant", "invalid_token": return true
        case "invalid_request":
            // RFC 8693 §2.2.2 has no code of its own for it.
            let text = answer?["error_description"]?.string?.lowercased() ?? ""
            return text.contains("subject_token") || text.contains("subject token")
        case nil: return reply.status == 401 && reply.challengeError == "invalid_token"
        default: return false
        }
    }

    private var authority: String { (point?.terms ?? ExchangeTerms()).authority }

    private func lacksScopes(_ reply: TokenReply) -> Bool {
        guard reply.document?["error"]?.string == nil else { return false }
        return reply.status == 401 || reply.status == 403
    }

    private func scopeFailure(_ reply: TokenReply, _ failure: TokenFailure) -> TokenFailure {
        let detail =
            "\(authority) does not issue these scopes for the parent's token (status \(reply.status)): does the parent have all of "
            + "scopes, and may it reach the resource?"
        return TokenFailure(
            .terminal,
            problem: GatewayProblem(.credentialMisconfigured, detail, cause: failure.problem.cause)
        )
    }

    private static let scopeAdvice = ["invalid_scope", "insufficient_scope", "unauthorized_client", "access_denied"].map
    {
        OAuthErrors.Advice(code: $0, text: "the parent does not have all of scopes, or may not exchange its token.")
    }

    private static func errors(of authority: String) -> OAuthErrors {
        OAuthErrors(authority: authority, advice: scopeAdvice + parentAdvice, unsendableTypes: unsendableTypes)
    }

    private static let subjectErrors = OAuthErrors(
        authority: "The authorization server",
        advice: ["invalid_grant", "invalid_token", "invalid_request"].map {
            OAuthErrors.Advice(
                code: $0,
                text:
                    "it does not accept subject_token; has it expired, and does the server trust its iss, sub and aud?"
            )
        },
        unsendableTypes: unsendableTypes
    )

    /// `N_A` is for tokens that need not be access tokens (RFC 8693 §2.2.1).
    private static let unsendableTypes = OAuthErrors.standard.unsendableTypes.subtracting(["n_a"])

    private static let parentAdvice = [
        OAuthErrors.Advice(
            code: "invalid_grant",
            text: "it does not accept the parent's token, not even a new one: is it for this server?"
        ),
        OAuthErrors.Advice(
            code: "invalid_token",
            text: "it does not accept the parent's token, not even a new one: is it for this server?"
        ),
        OAuthErrors.Advice(
            code: "invalid_target",
            text: "it does not know the resource, or issues no token for it: check resource."
        ),
    ]

    /// The parent's among them: its token is renewed and ended there.
    var authorityEndpoints: [AuthorityEndpoint] {
        [AuthorityEndpoint](point?.url, point?.revocation?.url) + (parent?.authorityEndpoints ?? [])
    }

    /// The parent's authorization server ends the token as it would end the parent's own. A token that another one gave is not for the
    /// parent's authorization server to see.
    func revocation(in attempt: GrantAttempt) -> RevocationStep {
        endsWithParents?.revocation(in: attempt) ?? (point?.revocation).step(as: point?.client, in: attempt)
    }

    func interpretRevocation(_ reply: TokenReply, in attempt: inout GrantAttempt) -> RevocationAnswer {
        endsWithParents?.interpretRevocation(reply, in: &attempt)
            ?? (point?.client).answerToRevocation(reply, in: attempt, sign: revocation(in:))
    }

    private var endsWithParents: (any TokenGrant)? {
        guard let point, point.revocation == nil, point.isParents else { return nil }
        return parent
    }
}

extension TokenExchangeGrant: ExchangeableGrant {
    var exchange: ExchangePoint? { point }
}

extension TokenReply {
    /// `error` of a `WWW-Authenticate` field (RFC 6750 §3).
    fileprivate var challengeError: String? {
        field("WWW-Authenticate").flatMap { AuthChallenge.errorCode(in: Array($0.utf8)) }
    }
}

/// A grant whose tokens can be exchanged where they come from.
protocol ExchangeableGrant: TokenGrant {
    /// nil when it does not know the place.
    var exchange: ExchangePoint? { get }
}

/// Where and how tokens are exchanged for weaker ones.
struct ExchangePoint: Sendable {
    let url: AuthorityURL
    /// How the client proves itself; nil when it need not.
    var client: ClientAuthentication?
    var terms = ExchangeTerms()
    /// Whether the parent's own tokens come from here.
    var isParents = true
    /// Where exchanged tokens are ended, unless it is as the parent's are.
    var revocation: RevocationEndpoint?
}

/// What is particular about exchanging tokens of one authorization server.
struct ExchangeTerms: Sendable {
    /// As messages begin with it.
    var authority = "The authorization server"
    /// A token without scopes is not given.
    var requiresScopes = false
    /// A token may be for the item of a shared link.
    var takesSharedLinks = false
}
