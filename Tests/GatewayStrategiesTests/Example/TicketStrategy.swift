import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

@testable import GatewayStrategies

/// Gets a ticket for an API key. A ticket lives for some minutes.
struct TicketStrategy: AuthStrategy {
    static let kind = "ticket"

    static let meanings: [String: KeyMeaning] = [
        "url": KeyMeaning("The URL that issues tickets.", example: "https://api.example.com/ticket"),
        "key": KeyMeaning("The API key.", example: "{env: TICKET_KEY}"),
    ]

    private let grant: TicketGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let url = fields.requiredAuthorityURL("url")
        let key = fields.requiredSecret("key")
        guard let url, let key else { return nil }
        grant = TicketGrant(url: url, key: key)
    }

    var behavior: AuthBehavior { .token(grant) }
}

private struct TicketGrant: TokenGrant {
    let url: AuthorityURL
    let key: Secret

    let isRenewable = true
    let rotatesRefreshToken = false

    /// Credentials with the same inputs share a token.
    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: TicketStrategy.kind, subject: nil)
        identity.add("url", url.text)
        identity.add("key", secret: key)
        return identity
    }

    /// Clients do not get there through a route with this credential.
    var authorityEndpoints: [AuthorityEndpoint] { [AuthorityEndpoint(url)] }

    func seed(at now: Moment) -> TokenSet? { nil }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        .request(TokenRequest(url: url, body: .form([.init("key", key)])))
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        guard (200..<300).contains(reply.status) else { return .failure(refusal(reply, at: attempt.now)) }
        let answer = reply.document
        guard let text = answer?["ticket"]?.string, let ticket = IssuedToken.read(text),
            case .number(let seconds)? = answer?["valid_seconds"], (1...86_400).contains(seconds.value)
        else {
            let broken = BrokenAnswer(reason: "ticket or valid_seconds is missing")
            return .failure(broken.failure(of: "The ticket server", status: reply.status))
        }
        let now = attempt.now.wall
        return .token(TokenSet(access: ticket, obtainedAt: now, expiresAt: now + .seconds(seconds.value)))
    }

    func injection(of token: TokenSet) -> Injection { .authorization(scheme: "Ticket", token.access) }

    /// Says what to do, and repeats nothing that the server said.
    private func refusal(_ reply: TokenReply, at now: Moment) -> TokenFailure {
        let cause = GatewayProblem.Cause(httpStatus: reply.status)
        guard StatusMap.standard.outcome(of: reply.status) == .transient else {
            let detail = "The ticket server refused the key (status \(reply.status)): check key."
            return TokenFailure(.terminal, problem: GatewayProblem(.credentialMisconfigured, detail, cause: cause))
        }
        let wait = reply.retryAfter(at: now)
        let detail =
            "The ticket server gives no ticket at the moment (status \(reply.status))."
        return TokenFailure(
            .transient(retryAfter: wait),
            problem: GatewayProblem(.tokenTemporarilyUnavailable, detail, cause: cause, retryAfter: wait)
        )
    }
}
