package import GatewayEvents
package import GatewayHTTP
import GatewayProxy
package import GatewayTokens

/// Every operation of the admin listener that answers with JSON about the gateway: one declaration each.
///
/// The properties are the list: ``endpoints``, the router, the role check and the buttons of the page are made from them, and the
/// client takes one of them. ``AdminRouteTable`` adds what answers in another form: pages, probes, streams, and the tokens for
/// clients.
package struct AdminAPI: Sendable {
    package typealias Operation<Answer: Codable & Sendable> = AdminOperation<any OperationRunner, Answer>
    package typealias LoginOperation<Answer: Codable & Sendable> = AdminOperation<any LoginControl, Answer>

    package static let operations = AdminAPI()

    static let endpoints = declared.compactMap { ($0 as? any ListedOperation)?.endpoint }

    /// The operations that need only the name of a credential. The page has a button for each.
    static let onTokens = declared.compactMap { $0 as? Operation<OperationReport> }.filter { $0.button != nil }

    private static var declared: [Any] { Mirror(reflecting: operations).children.map(\.value) }

    /// `/readyz` answers with a line of text, so it is not in the list.
    static let readiness = Operation<Readiness>(.get, "/readyz", .viewer) { gateway, _ in
        .success(await gateway.readiness())
    }

    // MARK: What is to be seen

    package let overview = Operation<GatewayOverview>(.get, "/api/overview", .viewer) { gateway, _ in
        .success(await gateway.overview())
    }

    package let routes = Operation<[RouteStatus]>(.get, "/api/routes", .viewer) { gateway, _ in
        .success(await gateway.routes())
    }

    package let traffic = Operation<[TrafficStatus]>(.get, "/api/traffic", .viewer) { gateway, _ in
        .success(await gateway.traffic())
    }

    package let expirations = Operation<[Expiration]>(.get, "/api/expirations", .viewer) { gateway, _ in
        .success(await gateway.expirations())
    }

    package let fleet = Operation<FleetReport>(.get, "/api/fleet", .viewer) { gateway, _ in
        await gateway.fleet()
    }

    package let tokens = Operation<[TokenStatus]>(.get, "/api/tokens", .viewer) { gateway, _ in
        .success(await gateway.tokens())
    }

    package let token = Operation<TokenStatus>(.get, "/api/tokens/:name", .viewer) { gateway, name in
        await gateway.token(name)
    }

    /// Not for everybody on the machine: digests of secrets are in it.
    package let plan = Operation<ServedPlan>(.get, "/api/plan", .operator) { gateway, _ in
        guard let plan = await gateway.servedPlan() else {
            return .failure(GatewayProblem(.noRoute, "This gateway was started without a configuration file."))
        }
        return .success(plan)
    }

    // MARK: What changes a token

    package let refresh = onToken("refresh", .renewal, "Renew the token now.") { await $0.perform(.refresh, on: $1) }

    package let revoke = onToken(
        "revoke",
        .token,
        "Have the authority forget the token, then forget it here.",
        withdraws: true
    ) {
        await $0.perform(.revoke, on: $1)
    }

    package let clear = onToken(
        "clear",
        .token,
        "Forget the token here; the authority is not told.",
        withdraws: true
    ) {
        await $0.perform(.clear, on: $1)
    }

    package let lock = onToken("lock", .lock, "Stop using the credential, over restarts too.", withdraws: true) {
        await $0.lock($1)
    }

    package let unlock = onToken("unlock", .unlock, "Use the credential again.") { await $0.unlock($1) }

    /// The body is a token: it is read, handed on and never repeated.
    package let importToken = Operation<OperationReport>(
        .post,
        "/api/tokens/:name/import",
        .operator,
        body: .read(upTo: ImportedToken.limitBytes),
        reading: { call in
            guard let body = call.body else {
                return .failure(GatewayProblem(.contentTooLarge, "A token has at most 64 KiB."))
            }
            do throws(UnusableInput) {
                return .success(try ImportedToken(reading: body))
            } catch {
                return .failure(GatewayProblem(.requestRefused, "Invalid token: \(error.message)."))
            }
        },
        perform: { gateway, name, token in await gateway.perform(.import(token), on: name) }
    )

    // MARK: What hands out a token

    package let reveal = Operation<RevealedTokenBody>(
        .post,
        "/api/tokens/:name/reveal",
        .operator
    ) { gateway, name in
        await gateway.reveal(name).map { RevealedTokenBody($0) }
    }

    package let downscope = Operation<RevealedTokenBody>(
        .post,
        "/api/tokens/:name/downscope",
        .operator,
        body: .read(upTo: 16 << 10),
        reading: { call in
            guard let options = DownscopeOptions(call.json) else {
                let example = #"{"scopes": ["item_preview"], "resource": "https://api.box.com/2.0/files/1"}"#
                return .failure(GatewayProblem(.requestRefused, "The body is to be JSON such as \(example)."))
            }
            return .success(options)
        },
        perform: { gateway, name, options in await gateway.downscope(name, options).map { RevealedTokenBody($0) } }
    )

    // MARK: What concerns the gateway as a whole

    /// A reload may take rights of clients and users away.
    package let reload = Operation<ReloadReport>(
        .post,
        "/api/reload",
        .operator,
        withdraws: true,
        isConflict: { $0.outcome != .loaded },
        perform: { gateway, _ in .success(await gateway.reload()) }
    )

    package let rotateKey = Operation<KeyRotationReport>(.post, "/api/key/rotate", .operator) {
        gateway,
        _ in
        await gateway.rotateKey()
    }

    package let rotateAuthority = Operation<AuthorityRotationReport>(
        .post,
        "/api/ca/rotate",
        .operator
    ) { gateway, _ in
        await gateway.rotateAuthority()
    }

    package let noteBackup = Operation<BackupNote>(
        .post,
        "/api/state/backup",
        .operator,
        body: .read(upTo: 4096),
        reading: { call in .success(call.json?["keys"] == .bool(true)) },
        perform: { gateway, _, includesKeys in await gateway.noteBackup(includesKeys: includesKeys) }
    )

    /// How a request would be routed and signed.
    ///
    /// The question may hold a client's token, and is never repeated. The answer holds no secret, so a page can show it.
    package let explain = AdminOperation<any ExplanationControl, ExplanationAnswer>(
        .post,
        "/api/explain",
        .operator,
        asking: { $0.explanations },
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

    package let beginLogin = LoginOperation<LoginInvitation>(
        .post,
        "/api/logins",
        .operator,
        asking: { $0.logins },
        body: .refused(over: AdminForm.limit)
    ) { logins, call in
        guard let order = LoginOrder(call.json) else {
            let ways = LoginOrder.Way.allCases.map(\.rawValue).joined(separator: ", ")
            return .failure(GatewayProblem(.requestRefused, "The login's way is none of \(ways)."))
        }
        return await logins.begin(order)
    }

    package let login = LoginOperation<LoginProgress>(
        .get,
        "/api/logins/:id",
        .operator,
        asking: { $0.logins }
    ) { logins, call in
        progress(await logins.progress(call.name))
    }

    package let answerLogin = LoginOperation<LoginProgress>(
        .post,
        "/api/logins/:id/answer",
        .operator,
        asking: { $0.logins },
        body: .refused(over: AdminForm.limit)
    ) { logins, call in
        progress(await logins.answer(call.name, with: call.json?["answer"]?.string ?? ""))
    }

    package let cancelLogin = LoginOperation<LoginProgress>(
        .delete,
        "/api/logins/:id",
        .operator,
        asking: { $0.logins }
    ) { logins, call in
        await logins.cancel(call.name)
        return progress(await logins.progress(call.name))
    }
}

/// An operation that needs only the name of a credential.
private func onToken(
    _ verb: String,
    _ use: AdminButton.Use,
    _ summary: String,
    withdraws: Bool = false,
    _ perform: @escaping @Sendable (OperatorControl, _ name: String) async -> Result<OperationReport, GatewayProblem>
) -> AdminAPI.Operation<OperationReport> {
    let button = AdminButton(use: use, summary: summary)
    let path = "/api/tokens/:name/\(verb)"
    return AdminAPI.Operation(.post, path, .operator, withdraws: withdraws, button: button, perform: perform)
}

private func progress(_ progress: LoginProgress?) -> Result<LoginProgress, GatewayProblem> {
    progress.map { .success($0) } ?? .failure(GatewayProblem(.noRoute, "There is no such login."))
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
