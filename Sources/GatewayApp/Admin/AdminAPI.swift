import GatewayEvents
package import GatewayHTTP
import GatewayProxy
package import GatewayTokens

/// Every operation of the admin listener that answers with JSON about the gateway: one declaration each.
///
/// ``AdminRouteTable`` lists them, beside what answers in another form: pages, probes, streams, and the tokens for clients.
package enum AdminAPI {
    package typealias Operation<Answer: Codable & Sendable> = AdminOperation<any GatewayControl, Answer>
    package typealias LoginOperation<Answer: Codable & Sendable> = AdminOperation<any LoginControl, Answer>

    // MARK: What is to be seen

    package static let overview = Operation<GatewayOverview>(.get, "/api/overview", .viewer) { gateway, _ in
        .success(await gateway.overview())
    }

    package static let routes = Operation<[RouteStatus]>(.get, "/api/routes", .viewer) { gateway, _ in
        .success(await gateway.routes())
    }

    static let traffic = Operation<[TrafficStatus]>(.get, "/api/traffic", .viewer) { gateway, _ in
        .success(await gateway.traffic())
    }

    package static let expirations = Operation<[Expiration]>(.get, "/api/expirations", .viewer) { gateway, _ in
        .success(await gateway.expirations())
    }

    package static let fleet = Operation<FleetReport>(.get, "/api/fleet", .viewer) { gateway, _ in
        await gateway.fleet()
    }

    package static let tokens = Operation<[TokenStatus]>(.get, "/api/tokens", .viewer) { gateway, _ in
        .success(await gateway.tokens())
    }

    package static let token = Operation<TokenStatus>(.get, "/api/tokens/:name", .viewer) { gateway, call in
        await gateway.token(call.name)
    }

    /// Not for everybody on the machine: digests of secrets are in it.
    package static let plan = Operation<ServedPlan>(.get, "/api/plan", .operator) { gateway, _ in
        guard let plan = await gateway.servedPlan() else {
            return .failure(GatewayProblem(.noRoute, "The plan of this gateway came from no file."))
        }
        return .success(plan)
    }

    // MARK: What changes a token

    package static let refresh = onToken("refresh", .refresh, "Renew the token now.")
    package static let revoke = onToken(
        "revoke",
        .revoke,
        "Have the authority forget the token, then forget it here.",
        withdraws: true
    )
    package static let clear = onToken(
        "clear",
        .clear,
        "Forget the token here; the authority is not told.",
        withdraws: true
    )
    package static let lock = onToken(
        "lock",
        .lock,
        "Stop using the credential, over restarts too.",
        withdraws: true
    )
    package static let unlock = onToken("unlock", .unlock, "Use the credential again.")

    /// The operations that need only the name of a credential. The page has a button for each.
    static let onTokens = [refresh, revoke, clear, lock, unlock]

    private static func onToken(
        _ verb: String,
        _ operation: TokenOperation,
        _ summary: String,
        withdraws: Bool = false
    ) -> Operation<OperationReport> {
        Operation(.post, "/api/tokens/:name/\(verb)", .operator, withdraws: withdraws, summary: summary) {
            await $0.perform(operation, on: $1.name)
        }
    }

    /// The body is a token: it is read, handed on and never repeated.
    package static let importToken = Operation<OperationReport>(
        .post,
        "/api/tokens/:name/import",
        .operator,
        body: .read(upTo: ImportedToken.limitBytes)
    ) { gateway, call in
        guard let body = call.body else {
            return .failure(GatewayProblem(.contentTooLarge, "A token has at most 64 KiB."))
        }
        let token: ImportedToken
        do throws(UnusableInput) {
            token = try ImportedToken(reading: body)
        } catch {
            return .failure(GatewayProblem(.requestRefused, "That is no token: \(error.message)."))
        }
        return await gateway.perform(.import(token), on: call.name)
    }

    // MARK: What hands out a token

    package static let reveal = Operation<RevealedTokenBody>(
        .post,
        "/api/tokens/:name/reveal",
        .operator
    ) { gateway, call in
        await gateway.reveal(call.name).map { RevealedTokenBody($0) }
    }

    package static let downscope = Operation<RevealedTokenBody>(
        .post,
        "/api/tokens/:name/downscope",
        .operator,
        body: .read(upTo: 16 << 10)
    ) { gateway, call in
        guard let options = DownscopeOptions(call.json) else {
            let example = #"{"scopes": ["item_preview"], "resource": "https://api.box.com/2.0/files/1"}"#
            return .failure(GatewayProblem(.requestRefused, "The body is to be JSON such as \(example)."))
        }
        return await gateway.downscope(call.name, options).map { RevealedTokenBody($0) }
    }

    // MARK: What concerns the gateway as a whole

    /// A reload may take rights of clients and users away.
    package static let reload = Operation<ReloadReport>(
        .post,
        "/api/reload",
        .operator,
        withdraws: true,
        isConflict: { $0.outcome != .loaded },
        perform: { gateway, _ in .success(await gateway.reload()) }
    )

    package static let rotateKey = Operation<KeyRotationReport>(.post, "/api/key/rotate", .operator) {
        gateway,
        _ in
        await gateway.rotateKey()
    }

    package static let rotateAuthority = Operation<AuthorityRotationReport>(
        .post,
        "/api/ca/rotate",
        .operator
    ) { gateway, _ in
        await gateway.rotateAuthority()
    }

    package static let noteBackup = Operation<BackupNote>(
        .post,
        "/api/state/backup",
        .operator,
        body: .read(upTo: 4096)
    ) { gateway, call in
        await gateway.noteBackup(includesKeys: call.json?["keys"] == .bool(true))
    }

    /// How a request would be routed and signed.
    ///
    /// The question may hold a client's token, and is never repeated. The answer holds no secret, so a page can show it.
    package static let explain = AdminOperation<any ExplanationControl, ExplanationAnswer>(
        .post,
        "/api/explain",
        .operator,
        body: .read(upTo: ExplainInput.limit + 4096)
    ) { explanations, call in
        let question = call.json
        guard let input = question?["input"]?.string else {
            let example = #"{"input": "GET http://127.0.0.1:8080/box/2.0/users/me", "client": "ci"}"#
            return .failure(GatewayProblem(.requestRefused, "The body is to be JSON such as \(example)."))
        }
        return await explanations.explain(ExplanationQuestion(input: input, client: question?["client"]?.string))
    }

    // MARK: Logins of the command line

    package static let beginLogin = LoginOperation<LoginInvitation>(
        .post,
        "/api/logins",
        .operator,
        body: .refused(over: AdminForm.limit)
    ) { logins, call in
        guard let order = LoginOrder(call.json) else {
            let ways = LoginOrder.Way.allCases.map(\.rawValue).joined(separator: ", ")
            return .failure(GatewayProblem(.requestRefused, "The login's way is none of \(ways)."))
        }
        return await logins.begin(order)
    }

    package static let login = LoginOperation<LoginProgress>(.get, "/api/logins/:id", .operator) { logins, call in
        progress(await logins.progress(call.name))
    }

    package static let answerLogin = LoginOperation<LoginProgress>(
        .post,
        "/api/logins/:id/answer",
        .operator,
        body: .refused(over: AdminForm.limit)
    ) { logins, call in
        progress(await logins.answer(call.name, with: call.json?["answer"]?.string ?? ""))
    }

    package static let cancelLogin = LoginOperation<LoginProgress>(
        .delete,
        "/api/logins/:id",
        .operator
    ) { logins, call in
        await logins.cancel(call.name)
        return progress(await logins.progress(call.name))
    }

    private static func progress(_ progress: LoginProgress?) -> Result<LoginProgress, GatewayProblem> {
        progress.map { .success($0) } ?? .failure(GatewayProblem(.noRoute, "There is no such login."))
    }

    static let endpoints: [AdminEndpoint] =
        [
            overview.endpoint, routes.endpoint, traffic.endpoint, expirations.endpoint, fleet.endpoint,
            tokens.endpoint, token.endpoint, plan.endpoint, importToken.endpoint, reveal.endpoint,
            downscope.endpoint, reload.endpoint, rotateKey.endpoint, rotateAuthority.endpoint, noteBackup.endpoint,
            explain.endpoint, beginLogin.endpoint, login.endpoint, answerLogin.endpoint, cancelLogin.endpoint,
        ] + onTokens.map(\.endpoint)
}

/// The body of ``AdminAPI/beginLogin``.
extension LoginOrder {
    package var json: JSONValue {
        .object([
            "credential": .string(credential), "way": .string(way.rawValue),
            "timeout_seconds": .number(.init(Double(timeout.wholeMilliseconds) / 1000)),
        ])
    }

    /// What is left out has its default.
    ///
    /// - Returns: nil if the way is unknown.
    fileprivate init?(_ json: JSONValue?) {
        self.init(credential: json?["credential"]?.string ?? "")
        if let text = json?["way"]?.string {
            guard let way = Way(rawValue: text) else { return nil }
            self.way = way
        }
        if case .number(let seconds)? = json?["timeout_seconds"], seconds.value > 0, seconds.value < 1e6 {
            timeout = .milliseconds(Int64(seconds.value * 1000))
        }
    }
}

/// An access token on its way to the operator who asked for it, as the admin listener and `--json` write it.
package struct RevealedTokenBody: Codable, Sendable {
    package let credential: String
    package let generation: Int
    package let accessToken: String
    package let expiresAt: String?

    init(_ token: RevealedToken) {
        credential = token.credential
        generation = token.generation
        accessToken = token.access.withValue { $0 }
        expiresAt = token.expiresAt?.rfc3339
    }
}
