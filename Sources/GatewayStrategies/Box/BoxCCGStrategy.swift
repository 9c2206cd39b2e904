import GatewayConfiguration
import GatewayTokens

/// Box's client credentials grant: a token for the service account of an enterprise, or for one user.
struct BoxCCGStrategy: BoxServerStrategy {
    static let kind = "box_ccg"

    var grant: BoxCCGGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let clientID = fields.requiredString("client_id")
        let clientSecret = fields.requiredSecret("client_secret")
        let subject = BoxSubject(in: fields)
        let endpoints = BoxEndpoints(in: fields)
        guard let clientID, let clientSecret, let subject, let endpoints, fields.context.errorCount == errors else {
            return nil
        }
        let client = BoxClient(id: clientID, secret: clientSecret)
        grant = BoxCCGGrant(client: client, endpoints: endpoints, subject: subject)
    }
}

struct BoxCCGGrant: BoxServerGrant {
    let client: BoxClient
    let endpoints: BoxEndpoints
    var subject: BoxSubject

    var identity: GrantIdentity { identity(of: BoxCCGStrategy.kind) }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        let form =
            [TokenRequest.Parameter("grant_type", "client_credentials")] + client.form
            + [
                TokenRequest.Parameter("box_subject_type", subject.type),
                TokenRequest.Parameter("box_subject_id", subject.id),
            ]
        return .request(TokenRequest(url: endpoints.tokenURL, body: .form(form)))
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        BoxAuthority.errors.answer(reply, in: &attempt)
    }
}

extension BoxCCGStrategy {
    static let meanings = SharedMeanings.of("client_id", "client_secret").merging(BoxEndpoints.meanings) { _, own in own
    }
    .merging(["subject": BoxSubject.meaning]) { own, _ in own }
}
