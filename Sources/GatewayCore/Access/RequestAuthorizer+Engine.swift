/// Requests that another proxy asks about.
extension RequestAuthorizer {
    /// Decides as for a request that a client sends, and only for routes that name the engine.
    ///
    /// The server is found as behind a CONNECT: `Host` may name a route's upstream. The gateway's own names mean nothing here, because
    /// the client has named the engine.
    ///
    /// - Parameters:
    ///   - head: Of ``OriginalRequest/bytes``.
    ///   - scheme: ``OriginalRequest/scheme``
    ///   - route: ``OriginalRequest/route``. With it, requests find their route as on a listener for clients, and it must be that one.
    package func decide(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        scheme: Origin.Scheme?,
        route: [UInt8],
        askedBy engine: String,
        on listener: ConnectionContext,
        trace: inout AuthorizationTrace?
    ) -> Decision {
        // A connection of an engine carries requests of many clients.
        var cache = ClientAuthenticationCache()
        guard let authority = authority(of: head, bytes) else {
            trace?.add(.hostRefused)
            return refuse(GatewayProblem(.requestRefused, "The Host is not a host name."), on: listener)
        }
        let upstream = table.findUpstream(
            bytes,
            scheme: scheme ?? .https,
            host: authority.host,
            port: authority.port,
            path: head.path
        )
        var match = table.find(bytes, host: authority.host, path: head.path)
        if route.isEmpty {
            switch upstream {
            case .none: break
            case .one(let route): match = .upstream(route)
            case .shared(let shared):
                let client = client(of: head, bytes, on: listener, &cache, trace)
                match = shared.route(for: client.client).map { .upstream($0) }
                if match == nil { return refuse(shared, client, isProxyRequest: false, on: listener) }
            }
        } else if isAmbiguous(upstream, match, head) {
            trace?.add(.hostRefused)
            return refuse(Self.ambiguous, on: listener, route: match?.route)
        }
        if let match, let problem = refusal(of: match, to: engine) ?? mismatch(match, chosen: route) {
            trace?.add(.notAllowed)
            return refuse(problem, on: listener, route: match.route)
        }
        let decision = judge(head, bytes, match, authority, isProxyRequest: false, on: listener, &cache, &trace)
        switch consume decision {
        case .admitted(let admitted): return .admitted(admitted)
        case .refused(let refusal): return .refused(refusal)
        // An answer with 2xx would let the engine forward it without a credential.
        case .preflight(let preflight):
            let detail = "The engine answers preflights itself; the gateway hands out no credential for them."
            return refuse(GatewayProblem(.originRefused, detail), on: listener, route: preflight.route)
        case .unrouted: return refuse(noRoute(false), on: listener)
        }
    }

    /// Why the route hands its credential not to this engine; nil where it does.
    private func refusal(of match: RouteTable.Match, to engine: String) -> GatewayProblem? {
        let gate = gates[match.route]
        guard !gate.engines.contains(engine) else { return nil }
        return GatewayProblem(
            .routeForbidden,
            "The route \(gate.name) hands no credential to the engine \(engine). To allow it, add \(engine) to"
                + " routes.\(gate.name).authz."
        )
    }

    /// Whether the host of an upstream finds another route, or another path on it, than the engine has chosen by ``EnginePlan/routeField``.
    ///
    /// A client could send that field to an engine that does not, and would choose which of both readings is judged.
    private func isAmbiguous(
        _ upstream: RouteTable.UpstreamMatch,
        _ match: RouteTable.Match?,
        _ head: borrowing RequestHead
    ) -> Bool {
        guard let match else { return false }
        switch upstream {
        case .none: return false
        case .one(let route): return route != match.route || !gates[route].readsAlike(head, match)
        case .shared(let shared):
            return !shared.routes.contains(match.route) || !gates[match.route].readsAlike(head, match)
        }
    }

    private static let ambiguous = GatewayProblem(
        .misdirected,
        "The host is that of an upstream, and the engine names a route that it finds in another way. Add the host to match.hosts of"
            + " that route, or have the engine send no \(EnginePlan.routeField)."
    )

    /// Why the engine's choice is not the gateway's; nil where it is, or where the engine names none.
    private func mismatch(_ match: RouteTable.Match, chosen route: [UInt8]) -> GatewayProblem? {
        let name = gates[match.route].name
        guard !route.isEmpty, !name.utf8.elementsEqual(route) else { return nil }
        return GatewayProblem(
            .routeForbidden,
            "The engine sends this request to another route than \(name), which the gateway finds for it. Export the engine's"
                + " configuration again (authgateway export)."
        )
    }
}
