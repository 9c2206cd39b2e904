import GatewayHTTP
import GatewayTokens

/// Obtains temporary keys, with which requests are signed.
struct AWSTokenGrant: TokenGrant {
    enum Source: Sendable {
        /// A program in the sense of `credential_process`.
        case program(TokenProgram)
        case role(AssumedRole)
    }

    let source: Source
    /// See ``AWSRequestSigner``.
    let regions: [String]
    let services: [String]

    let isRenewable = true
    let rotatesRefreshToken = false
    /// No key is sent. A failure for good means that nothing has changed since.
    let sendsSecrets = false

    var identity: GrantIdentity {
        var identity: GrantIdentity
        switch source {
        case .program(let program):
            identity = GrantIdentity(strategy: AWSSignatureStrategy.kind, subject: nil)
            for (index, argument) in program.command.enumerated() {
                identity.add("credential_process.\(index)", argument)
            }
        case .role(let role):
            identity = GrantIdentity(strategy: AWSSignatureStrategy.kind, subject: role.arn)
            role.addInputs(to: &identity)
        }
        // Credentials with the same keys may be limited to different regions and services.
        identity.add("region", regions.joined(separator: ","))
        identity.add("service", services.joined(separator: ","))
        return identity
    }

    var authorityEndpoints: [AuthorityEndpoint] {
        guard case .role(let role) = source else { return [] }
        var endpoints = [AuthorityEndpoint](role.url)
        if case .parent(let parent)? = role.caller { endpoints += parent.authorityEndpoints }
        return endpoints
    }

    func seed(at now: Moment) -> TokenSet? { nil }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        switch source {
        case .program(let program): .run(program)
        case .role(let role): GrantStep { () throws(TokenFailure) in try role.request(in: attempt) }
        }
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        switch source {
        case .program(let program):
            do throws(BrokenAnswer) {
                return .token(try AWSTemporaryKeys(printed: reply.document).token(obtainedAt: attempt.now.wall))
            } catch {
                let name = program.command.first ?? "The program"
                let detail = "\(name) printed no usable keys: \(error.reason)."
                return .failure(
                    TokenFailure(
                        .transient(retryAfter: nil),
                        problem: GatewayProblem(.tokenTemporarilyUnavailable, detail)
                    )
                )
            }
        case .role(let role):
            guard reply.status == 200 else {
                let repair =
                    role.signs
                    ? AssertionRepair.statement.answer(
                        to: reply,
                        in: attempt,
                        from: AssumedRole.authority,
                        sign: firstStep
                    )
                    : nil
                return repair ?? STSRefusal(reply, at: attempt.now).answer(for: role)
            }
            do throws(BrokenAnswer) {
                return .token(try role.keys(in: reply).token(obtainedAt: attempt.now.wall))
            } catch {
                return .failure(error.failure(of: AssumedRole.authority, status: reply.status))
            }
        }
    }

    /// An operator may bring keys, too.
    func completing(_ token: TokenSet) -> TokenSet {
        var token = token
        token.expiresAt = token.expiresAt ?? AWSTemporaryKeys(token.access)?.expiresAt
        return token
    }

    // MARK: Requests

    func injection(of token: TokenSet) -> Injection { Injection() }

    func signer(with token: TokenSet) -> Signer? {
        guard let keys = AWSTemporaryKeys(token.access)?.keys else { return .everyRequest(UnreadableKeys()) }
        return .everyRequest(AWSRequestSigner(keys: keys, regions: regions, services: services))
    }
}

/// Stands for a token that is not made of keys, and refuses every request.
private struct UnreadableKeys: RequestSigner {
    let ownedFields = AWSRequestSigner.fields
    var identity: GrantIdentity { GrantIdentity(strategy: AWSSignatureStrategy.kind, subject: nil) }

    private static let problem = GatewayProblem(
        .credentialMisconfigured,
        "The stored token does not consist of AWS keys. Clear it, and the gateway obtains new ones:"
            + " authgateway token clear NAME."
    )

    func plan(for request: SignableRequest) -> Result<any SigningPlan, GatewayProblem> { .failure(Self.problem) }
}
