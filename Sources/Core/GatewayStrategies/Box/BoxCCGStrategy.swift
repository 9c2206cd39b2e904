import GatewayCore

/// Box's client credentials grant: a token for the service account of an enterprise, or for one user.
struct BoxCCGStrategy: AuthStrategy {
    static let kind = "box_ccg"
    static let hasSubject = true

    private var grant: BoxCCGGrant

    init?(from fields: ConfigFields) {
        let errors = fields.context.errorCount
        let clientID = fields.requiredString("client_id")
        let clientSecret = fields.requiredSecret("client_secret")
        let subject = BoxSubject(in: fields)
        let tokenURL =
            fields.has("token_url") ? fields.authorityURL("token_url") : try? AuthorityURL(BoxAuthority.tokenURL)
        let revokeURL = BoxAuthority.revokeURL(in: fields, tokenURL: tokenURL)
        guard let clientID, let clientSecret, let subject, let tokenURL, fields.context.errorCount == errors else {
            return nil
        }
        grant = BoxCCGGrant(
            tokenURL: tokenURL,
            revokeURL: revokeURL,
            clientID: clientID,
            clientSecret: clientSecret,
            subject: subject
        )
    }

    var behavior: AuthBehavior { .token(grant) }

    func switchingSubject(_ fields: ConfigFields) -> (any AuthStrategy)? {
        guard let subject = BoxSubject(in: fields) else { return nil }
        var copy = self
        copy.grant.subject = subject
        return copy
    }
}

private struct BoxCCGGrant: TokenGrant {
    let tokenURL: AuthorityURL
    let revokeURL: AuthorityURL?
    let clientID: String
    let clientSecret: Secret
    var subject: BoxSubject

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: BoxCCGStrategy.kind, subject: "\(subject.type):\(subject.id)")
        identity.add("token_url", tokenURL.text)
        identity.add("client_id", clientID)
        identity.add("client_secret", secret: clientSecret)
        identity.add("box_subject_type", subject.type)
        identity.add("box_subject_id", subject.id)
        return identity
    }

    let isRenewable = true
    let rotates = false

    func seed(at now: Moment) -> TokenSet? { nil }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        let form = [
            TokenRequest.Parameter("grant_type", "client_credentials"),
            TokenRequest.Parameter("client_id", clientID),
            TokenRequest.Parameter("client_secret", clientSecret),
            TokenRequest.Parameter("box_subject_type", subject.type),
            TokenRequest.Parameter("box_subject_id", subject.id),
        ]
        return .request(TokenRequest(url: tokenURL, body: .form(form)))
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        GrantAnswer(BoxAuthority.errors.interpret(reply, at: attempt.now))
    }

    func revocation(of token: TokenSet) -> TokenRequest? {
        revokeURL.map {
            BoxAuthority.revocation(of: token.access, at: $0, clientID: clientID, clientSecret: clientSecret)
        }
    }

    var revocationObstacle: String {
        "The credential has a token_url of its own and no revoke_url; add it."
    }

    func injection(of token: TokenSet) -> Injection { .bearer(token.access) }
}

extension BoxCCGGrant: ExchangeableGrant {
    var exchange: ExchangePoint? { ExchangePoint(url: tokenURL, isBox: true) }
}
