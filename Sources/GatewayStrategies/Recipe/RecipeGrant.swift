import GatewayHTTP
import GatewayTokens

/// Runs the steps of a recipe: `refresh` while a token is held that it can start from, else `acquire`.
///
/// A refresh that is refused goes over into `acquire` within the same attempt, where there is one.
struct RecipeGrant: TokenGrant {
    private enum Flow {
        case acquire
        case refresh
    }

    /// Outputs that mean something by their name.
    static let told: Set<String> = ["token", "renewal", "expires_in", "expires_at"]

    let inputs: [(name: String, value: Secret)]
    let secrets: [String: Secret]
    let acquire: [RecipeStep]
    let refresh: [RecipeStep]
    let revoke: [RecipeStep]
    let kept: Set<String>
    let initial: [String: Secret]?
    /// A response states the end in the output `expires_in` or `expires_at`.
    let expiry: ExpiryRule
    let placement: TokenPlacement
    let loginHint: String?
    /// Where the recipe stands in the configuration.
    let place: String

    let isRenewable = true

    /// The refresh presents the refresh token and brings the next one.
    var rotatesRefreshToken: Bool {
        refresh.contains { $0.request.names.contains("renewal") }
            && refresh.contains { $0.outputs.contains { $0.name == "renewal" } }
    }

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: RecipeStrategy.kind, subject: nil)
        for input in inputs { identity.add(input.name, secret: input.value) }
        return identity
    }

    var hiddenSecrets: [Secret] { Array(secrets.values) + (initial.map { Array($0.values) } ?? []) }

    var authorityEndpoints: [AuthorityEndpoint] {
        (acquire + refresh + revoke).filter { !$0.onlyReads }.flatMap { [AuthorityEndpoint]($0.request.destination) }
    }

    func seed(at now: Moment) -> TokenSet? {
        guard let initial, let access = initial["token"] else { return nil }
        return expiry.completing(
            TokenSet(
                access: access,
                refreshToken: initial["renewal"],
                extras: initial.filter { kept.contains($0.key) },
                obtainedAt: now.wall
            )
        )
    }

    func completing(_ token: TokenSet) -> TokenSet { expiry.completing(token) }

    // MARK: Steps

    var canAcquireAnew: Bool { !acquire.isEmpty }
    var sendsSecrets: Bool { !secrets.isEmpty || !refresh.isEmpty }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        switch flow(at: attempt) {
        case .refresh: return step(refresh, 0, attempt).map { .request($0) } ?? .impossible(unwritable)
        case .acquire:
            guard !acquire.isEmpty else {
                return .impossible(loginRequired("There is no token to renew from", cause: nil, clears: false))
            }
            return step(acquire, 0, attempt).map { .request($0) } ?? .impossible(unwritable)
        }
    }

    /// The way that an attempt begins.
    private func flow(at attempt: GrantAttempt) -> Flow {
        guard let first = refresh.first, attempt.held != nil else { return .acquire }
        if attempt.isRefreshTokenUncertain, canAcquireAnew { return .acquire }
        let values = values(of: attempt.held)
        return first.request.names.allSatisfy { values[$0] != nil } ? .refresh : .acquire
    }

    private func values(in attempt: GrantAttempt) -> [String: Secret] {
        values(of: attempt.held).merging(attempt.outputs) { $1 }
    }

    private func values(of token: TokenSet?) -> [String: Secret] {
        var values = secrets
        guard let token else { return values }
        values.merge(token.extras.filter { kept.contains($0.key) }) { $1 }
        values["token"] = token.access
        values["renewal"] = token.refreshToken
        return values
    }

    func step(_ steps: [RecipeStep], _ index: Int, _ attempt: GrantAttempt) -> TokenRequest? {
        try? steps[index].request.request(with: values(in: attempt))
    }

    func sendsRefreshToken(in attempt: GrantAttempt) -> Bool {
        guard attempt.restartedAfterStep == nil, flow(at: attempt) == .refresh,
            refresh.indices.contains(attempt.answers)
        else { return false }
        return refresh[attempt.answers].request.names.contains("renewal")
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        let flow = attempt.restartedAfterStep == nil ? flow(at: attempt) : .acquire
        let steps = flow == .refresh ? refresh : acquire
        let index = attempt.answers - 1 - (attempt.restartedAfterStep ?? 0)
        guard steps.indices.contains(index) else { return .failure(unwritable) }
        let step = steps[index]
        switch step.outcome(of: reply, at: attempt.now.wall) {
        case .success(let outputs):
            attempt.outputs.merge(outputs) { $1 }
            return index + 1 < steps.count
                ? self.step(steps, index + 1, attempt).map { .next($0) } ?? .failure(unwritable)
                : finish(reply, step, &attempt)
        case .broken(let answer, let found):
            if flow == .refresh, RefreshError(reply) != nil { return refused(reply, step, index, in: &attempt) }
            attempt.nextRefreshToken = found["renewal"] ?? attempt.nextRefreshToken
            return .failure(answer.failure(of: step.request.host, status: reply.status))
        case .transient: return .failure(transient(reply, step, at: attempt.now))
        case .refused(let isFinal):
            guard flow == .refresh else { return .failure(misconfigured(reply, step, "acquire", index)) }
            return refused(reply, step, index, in: &attempt, isFinal: isFinal)
        }
    }

    /// What follows when a step of the refresh brings an error.
    private func refused(
        _ reply: TokenReply,
        _ step: RecipeStep,
        _ index: Int,
        in attempt: inout GrantAttempt,
        isFinal: Bool = false
    ) -> GrantAnswer {
        let error = step.refreshError(reply)
        guard canAcquireAnew, error.acquiresAnew(in: attempt) else {
            return .failure(failure(error, reply, step, index, in: attempt, isFinal: isFinal))
        }
        attempt.beginAnew(after: error)
        return self.step(acquire, 0, attempt).map { .next($0) } ?? .failure(unwritable)
    }

    private func finish(_ reply: TokenReply, _ step: RecipeStep, _ attempt: inout GrantAttempt) -> GrantAnswer {
        do throws(BrokenAnswer) {
            return .token(try token(from: &attempt))
        } catch {
            return .failure(error.failure(of: step.request.host, status: reply.status))
        }
    }

    private func token(from attempt: inout GrantAttempt) throws(BrokenAnswer) -> TokenSet {
        let (outputs, now) = (attempt.outputs, attempt.now)
        guard let access = outputs["token"]?.withValue({ IssuedToken.read($0) }) else {
            throw BrokenAnswer(reason: "the token is too long or contains characters that no token may contain")
        }
        // What a refresh leaves out goes on to be valid; a new login owes nothing to the old one.
        let isNew = attempt.restartedAfterStep != nil || attempt.isRefreshTokenUncertain && canAcquireAnew
        let old = isNew || refresh.isEmpty ? nil : attempt.held
        var extras = old?.extras ?? [:]
        for name in kept { if let value = outputs[name] { extras[name] = value } }
        let stated = { (name: String) in outputs[name].map { $0.withValue { JSONValue.string($0) } } }
        let token = TokenSet(
            access: access,
            refreshToken: outputs["renewal"] ?? old?.refreshToken,
            extras: extras.filter { kept.contains($0.key) },
            obtainedAt: now.wall,
            expiresAt: try expiry.end(
                of: access,
                at: stated("expires_at"),
                after: stated("expires_in"),
                from: now.wall,
                isForgiving: rotatesRefreshToken,
                remarks: &attempt.remarks
            )
        )
        if let obstacle = placement.obstacle(to: token) { throw BrokenAnswer(reason: obstacle) }
        return token
    }

    func injection(of token: TokenSet) -> Injection { placement.injection(of: token) }

    // MARK: Failures

    private func transient(_ reply: TokenReply, _ step: RecipeStep, at now: Moment) -> TokenFailure {
        .transient(
            authority: step.request.host,
            status: reply.status,
            code: cause(of: reply).code,
            wait: reply.retryAfter(at: now)
        )
    }

    /// What an answer to the refresh means.
    private func failure(
        _ error: RefreshError,
        _ reply: TokenReply,
        _ step: RecipeStep,
        _ index: Int,
        in attempt: GrantAttempt,
        isFinal: Bool
    ) -> TokenFailure {
        switch error {
        case .transient: return transient(reply, step, at: attempt.now)
        case .suspect: return TokenFailure(suspect: reply, from: step.request.host)
        case .configuration, .request:
            guard !canAcquireAnew, error.mayEndLogin(in: attempt) else {
                return misconfigured(reply, step, "refresh", index)
            }
            return .loginLikely(
                what: refusal(reply, step, "refresh", index),
                login: loginAdvice,
                otherwise: "check the recipe and its secrets.",
                cause: cause(of: reply)
            )
        case .refused, .personNeeded:
            return loginRequired(
                refusal(reply, step, "refresh", index),
                cause: cause(of: reply),
                clears: isFinal && error == .refused
            )
        }
    }

    private func refusal(_ reply: TokenReply, _ step: RecipeStep, _ flow: String, _ index: Int) -> String {
        let code = cause(of: reply).code.map { $0 == "other" ? "" : ", \($0)" } ?? ""
        return "\(step.request.host) refused step \(index + 1) of \"\(flow)\" (status \(reply.status)\(code))"
    }

    private func misconfigured(_ reply: TokenReply, _ step: RecipeStep, _ flow: String, _ index: Int) -> TokenFailure {
        let isRedirect = (300..<400).contains(reply.status)
        let redirect = isRedirect ? "; a redirect is never followed: list it as success if it is one" : ""
        let detail = "\(refusal(reply, step, flow, index))\(redirect): check the recipe and its secrets."
        // Many forms answer a refused login with a redirect.
        let isRefusedForm = isRedirect && flow == "acquire" && step.request.names.contains { secrets[$0] != nil }
        // Among the secrets may be a password, and directories lock accounts.
        let mayRefusePassword = !secrets.isEmpty && RefreshError(reply)?.blamesConfiguration != true || isRefusedForm
        return TokenFailure(
            .terminal,
            problem: GatewayProblem(.credentialMisconfigured, detail, cause: cause(of: reply)),
            isRetried: !mayRefusePassword
        )
    }

    private func cause(of reply: TokenReply) -> GatewayProblem.Cause {
        GatewayProblem.Cause(code: OAuthErrorCode.allowListed(RefreshError.code(in: reply)), httpStatus: reply.status)
    }

    private var loginAdvice: String {
        loginHint ?? "put a new token into \"initial\" of \(place.isEmpty ? "the credential" : place)."
    }

    private func loginRequired(_ what: String, cause: GatewayProblem.Cause?, clears: Bool) -> TokenFailure {
        let problem = GatewayProblem(.loginRequired, "\(what): \(loginAdvice)", cause: cause)
        return TokenFailure(.loginRequired, problem: problem, clearsToken: clears)
    }

    /// The configuration was checked, so that only a value from outside can be the reason.
    var unwritable: TokenFailure {
        let detail =
            "A request of the recipe at \(place.isEmpty ? "the credential" : place) cannot be written: a value is missing."
        return TokenFailure(.terminal, problem: GatewayProblem(.credentialMisconfigured, detail))
    }
}
