package import GatewayCore

/// Every operation of the admin listener that answers with JSON about the gateway: one declaration each.
///
/// Pages, probes, streams, logins and explanations have their own routes, and their rows in ``AdminRouteTable``.
package enum AdminAPI {
    // MARK: What is to be seen

    package static let overview = AdminOperation<GatewayOverview>(.get, "/api/overview", .viewer) { gateway, _ in
        .success(await gateway.overview())
    }

    package static let routes = AdminOperation<[RouteStatus]>(.get, "/api/routes", .viewer) { gateway, _ in
        .success(await gateway.routes())
    }

    package static let traffic = AdminOperation<[TrafficStatus]>(.get, "/api/traffic", .viewer) { gateway, _ in
        .success(await gateway.traffic())
    }

    package static let expirations = AdminOperation<[Expiration]>(.get, "/api/expirations", .viewer) { gateway, _ in
        .success(await gateway.expirations())
    }

    package static let fleet = AdminOperation<FleetReport>(.get, "/api/fleet", .viewer) { gateway, _ in
        await gateway.fleet()
    }

    package static let tokens = AdminOperation<[TokenStatus]>(.get, "/api/tokens", .viewer) { gateway, _ in
        .success(await gateway.tokens())
    }

    package static let token = AdminOperation<TokenStatus>(.get, "/api/tokens/:name", .viewer) { gateway, call in
        await gateway.token(call.name)
    }

    /// Not for everybody on the machine: digests of secrets are in it.
    package static let plan = AdminOperation<ServedPlan>(.get, "/api/plan", .operator) { gateway, _ in
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
    ) -> AdminOperation<OperationReport> {
        AdminOperation(.post, "/api/tokens/:name/\(verb)", .operator, withdraws: withdraws) { gateway, call in
            await gateway.perform(operation, on: call.name)
        }
    }

    /// The body is a token: it is read, handed on and never repeated.
    package static let importToken = AdminOperation<OperationReport>(
        .post,
        "/api/tokens/:name/import",
        .operator,
        bodyLimit: ImportedToken.limitBytes
    ) { gateway, call in
        guard let body = call.body else {
            return .failure(GatewayProblem(.contentTooLarge, "A token has at most 64 KiB."))
        }
        let token: ImportedToken
        do throws(ImportedTokenError) {
            token = try ImportedToken(reading: body)
        } catch {
            return .failure(GatewayProblem(.requestRefused, "That is no token: \(error.reason)."))
        }
        return await gateway.perform(.import(token), on: call.name)
    }

    // MARK: What hands out a token

    package static let reveal = AdminOperation<RevealedTokenBody>(
        .post,
        "/api/tokens/:name/reveal",
        .operator
    ) { gateway, call in
        await gateway.reveal(call.name).map { RevealedTokenBody($0) }
    }

    package static let downscope = AdminOperation<RevealedTokenBody>(
        .post,
        "/api/tokens/:name/downscope",
        .operator,
        bodyLimit: 16 << 10
    ) { gateway, call in
        guard let options = DownscopeOptions(call.json) else {
            let example = #"{"scopes": ["item_preview"], "resource": "https://api.box.com/2.0/files/1"}"#
            return .failure(GatewayProblem(.requestRefused, "The body is to be JSON such as \(example)."))
        }
        return await gateway.downscope(call.name, options).map { RevealedTokenBody($0) }
    }

    // MARK: What concerns the gateway as a whole

    /// A reload may take rights of clients and users away.
    package static let reload = AdminOperation<ReloadReport>(
        .post,
        "/api/reload",
        .operator,
        withdraws: true,
        isConflict: { $0.outcome != .loaded },
        perform: { gateway, _ in .success(await gateway.reload()) }
    )

    package static let rotateKey = AdminOperation<KeyRotationReport>(.post, "/api/key/rotate", .operator) {
        gateway,
        _ in
        await gateway.rotateKey()
    }

    package static let rotateAuthority = AdminOperation<AuthorityRotationReport>(
        .post,
        "/api/ca/rotate",
        .operator
    ) { gateway, _ in
        await gateway.rotateAuthority()
    }

    package static let noteBackup = AdminOperation<BackupNote>(
        .post,
        "/api/state/backup",
        .operator,
        bodyLimit: 4096
    ) { gateway, call in
        await gateway.noteBackup(includesKeys: call.json?["keys"] == .bool(true))
    }

    /// What the router serves and the role check knows.
    static let endpoints: [AdminEndpoint] =
        [
            overview.endpoint, routes.endpoint, traffic.endpoint, expirations.endpoint, fleet.endpoint,
            tokens.endpoint, token.endpoint, plan.endpoint, importToken.endpoint, reveal.endpoint,
            downscope.endpoint, reload.endpoint, rotateKey.endpoint, rotateAuthority.endpoint, noteBackup.endpoint,
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
