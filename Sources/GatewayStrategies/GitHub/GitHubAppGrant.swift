import GatewayCore

/// Looks the installation up, unless its id is known, and asks for a token of it.
struct GitHubAppGrant: TokenGrant {
    /// What earlier steps put aside.
    private enum Output {
        static let installation = "installation"
        /// The owner is no organization.
        static let isUser = "is_user"
    }

    private enum Step {
        case organization(String)
        case user(String)
        case token(String)
    }

    let app: GitHubApp
    let installation: GitHubInstallation
    let placement: TokenPlacement

    let isRenewable = true
    let rotatesRefreshToken = false
    let sendsSecrets = false

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: GitHubAppStrategy.kind, subject: installation.name)
        app.addInputs(to: &identity)
        installation.addInputs(to: &identity)
        placement.addInputs(to: &identity)
        return identity
    }

    func seed(at now: Moment) -> TokenSet? { nil }
    func injection(of token: TokenSet) -> Injection { placement.injection(of: token) }

    var authorityEndpoints: [AuthorityEndpoint] {
        let steps: [Step] =
            switch installation.place {
            case .id(let id): [.token(String(id))]
            case .owner(let owner): [.organization(owner), .user(owner), .token("*")]
            }
        return (steps.map(path) + [Self.revocationPath]).compactMap { app.url($0).map { AuthorityEndpoint($0) } }
    }

    // MARK: Steps

    private func step(in attempt: GrantAttempt) -> Step {
        switch installation.place {
        case .id(let id): return .token(String(id))
        case .owner(let owner):
            if let found = attempt.outputs[Output.installation] { return .token(found.withValue { $0 }) }
            return attempt.outputs[Output.isUser] == nil ? .organization(owner) : .user(owner)
        }
    }

    private func path(_ step: Step) -> String {
        switch step {
        case .organization(let name): "/orgs/\(name)/installation"
        case .user(let name): "/users/\(name)/installation"
        case .token(let id): "/app/installations/\(id)/access_tokens"
        }
    }

    private func request(in attempt: GrantAttempt) throws(TokenFailure) -> TokenRequest {
        let step = step(in: attempt)
        let now = attempt.now.wall
        guard case .token = step else { return try app.request(.get, path(step), at: now) }
        return try app.request(.post, path(step), body: installation.body, at: now)
    }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        GrantStep { () throws(TokenFailure) in try request(in: attempt) }
    }

    private func nextStep(in attempt: GrantAttempt) -> GrantAnswer {
        do throws(TokenFailure) {
            return .next(try request(in: attempt))
        } catch {
            return .failure(error)
        }
    }

    // MARK: Answers

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        let step = step(in: attempt)
        guard (200..<300).contains(reply.status) else {
            if case .organization = step, reply.status == 404 {
                attempt.outputs[Output.isUser] = Secret("true")
                return nextStep(in: attempt)
            }
            return AssertionRepair.statement.answer(to: reply, in: attempt, from: "GitHub", sign: firstStep)
                ?? .failure(GitHubRefusal(reply, at: attempt.now).failure(after: advice(for: reply.status, step)))
        }
        do throws(BrokenAnswer) {
            if case .token = step {
                return .token(try token(in: reply, at: attempt.now.wall, remarks: &attempt.remarks))
            }
            attempt.outputs[Output.installation] = Secret(String(try installationID(in: reply)))
            return nextStep(in: attempt)
        } catch {
            return .failure(error.failure(of: "GitHub", status: reply.status))
        }
    }

    private func installationID(in reply: TokenReply) throws(BrokenAnswer) -> Int64 {
        guard case .number(let number)? = reply.document?["id"], let id = number.whole, id > 0 else {
            throw BrokenAnswer(reason: "there is no id of an installation in it")
        }
        return id
    }

    /// GitHub's tokens of installations end after one hour.
    private static let usualLifetime: Duration = .seconds(3600)

    private func token(
        in reply: TokenReply,
        at now: UnixTime,
        remarks: inout [String]
    ) throws(BrokenAnswer) -> TokenSet {
        guard let answer = reply.document else { throw BrokenAnswer(reason: "the body is not JSON") }
        guard let text = answer["token"]?.string, let access = IssuedToken.read(text) else {
            throw BrokenAnswer(reason: "there is no token in it")
        }
        let end = try StatedTimes.end(
            of: access,
            at: answer["expires_at"],
            after: nil,
            usually: Self.usualLifetime,
            from: now,
            isForgiving: true,
            remarks: &remarks
        )
        let token = TokenSet(access: access, obtainedAt: now, expiresAt: end)
        if let obstacle = placement.obstacle(to: token) { throw BrokenAnswer(reason: obstacle) }
        return token
    }

    private func advice(for status: Int, _ step: Step) -> String {
        switch (status, step) {
        case (401, _): "check app_id or client_id, and that private_key is a key of this app."
        case (403, _): "is the installation suspended?"
        case (404, .token): "the app has no such installation; check installation_id."
        case (404, _): "the app is not installed there; check owner."
        case (422, _): "the installation does not have all of repositories and permissions."
        case (300..<400, _): "a redirect is never followed; set api_url to the final address."
        default: "check api_url."
        }
    }

    // MARK: Revocation

    private static let revocationPath = "/installation/token"

    func revocation(in attempt: GrantAttempt) -> RevocationStep {
        guard let token = attempt.held?.access else { return .impossible("There is no token.") }
        do throws(TokenFailure) {
            return .request(try app.request(.delete, Self.revocationPath, with: token))
        } catch {
            return .impossible(error.problem.detail)
        }
    }

    /// GitHub answers 401 to a token that has ended.
    func interpretRevocation(_ reply: TokenReply, in attempt: inout GrantAttempt) -> RevocationAnswer {
        reply.status == 401 ? .revoked : RevocationAnswer(reply)
    }
}
