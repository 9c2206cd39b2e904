package import GatewayCore

/// Every operation of the admin listener that answers with JSON about the gateway: one declaration each.
///
/// Pages, probes and streams have their own routes, and their rows in ``AdminRouteTable``. So has `POST /tokens/NAME`, where clients
/// prove themselves and which answers in the form of OAuth.
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

    package static let traffic = Operation<[TrafficStatus]>(.get, "/api/traffic", .viewer) { gateway, _ in
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

    package static let refresh = onToken("refresh", .refresh)
    package static let revoke = onToken("revoke", .revoke, withdraws: true)
    package static let clear = onToken("clear", .clear, withdraws: true)
    package static let lock = onToken("lock", .lock, withdraws: true)
    package static let unlock = onToken("unlock", .unlock)

    /// Those that need no more than the name of a credential; the page offers them, too.
    static let onTokens = [refresh, revoke, clear, lock, unlock]

    private static func onToken(
        _ verb: String,
        _ operation: TokenOperation,
        withdraws: Bool = false
    ) -> Operation<OperationReport> {
        Operation(.post, "/api/tokens/:name/\(verb)", .operator, withdraws: withdraws) { gateway, call in
            await gateway.perform(operation, on: call.name)
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
        body: .refused(over: AdminLogins.bodyLimit)
    ) { logins, call in
        let wanted = call.json
        var order = LoginOrder(credential: wanted?["credential"]?.string ?? "")
        if let text = wanted?["way"]?.string {
            guard let way = LoginOrder.Way(rawValue: text) else {
                let ways = LoginOrder.Way.allCases.map(\.rawValue).joined(separator: ", ")
                return .failure(GatewayProblem(.requestRefused, "The login's way is none of \(ways)."))
            }
            order.way = way
        }
        if case .number(let seconds)? = wanted?["timeout_seconds"], seconds.value > 0, seconds.value < 1e6 {
            order.timeout = .milliseconds(Int64(seconds.value * 1000))
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
        body: .refused(over: AdminLogins.bodyLimit)
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

    /// What the router serves and the role check knows.
    static let endpoints: [AdminEndpoint] =
        [
            overview.endpoint, routes.endpoint, traffic.endpoint, expirations.endpoint, fleet.endpoint,
            tokens.endpoint, token.endpoint, plan.endpoint, importToken.endpoint, reveal.endpoint,
            downscope.endpoint, reload.endpoint, rotateKey.endpoint, rotateAuthority.endpoint, noteBackup.endpoint,
            explain.endpoint, beginLogin.endpoint, login.endpoint, answerLogin.endpoint, cancelLogin.endpoint,
        ] + onTokens.map(\.endpoint)
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
