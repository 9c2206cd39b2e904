/// Decides who may do what, from the head of a request alone: which host was meant, which page sent it, which client it
/// is, which route it takes and whether that client may.
package final class Admission: Sendable {
    /// Handed on, never copied: there is one for every request.
    package enum Verdict: ~Copyable, Sendable {
        case admitted(Admitted)
        case refused(Refusal)
    }

    package struct Admitted: Sendable {
        package let match: RouteTable.Match
        package let client: String?
        /// The client authenticated to us with `Authorization`, so it must not go upstream.
        package let stripsAuthorization: Bool
    }

    /// A class, so that a verdict is no larger than what is admitted.
    package final class Refusal: Sendable {
        package let problem: GatewayProblem
        package let route: Int?
        package let client: String?

        init(problem: GatewayProblem, route: Int?, client: String?) {
            self.problem = problem
            self.route = route
            self.client = client
        }
    }

    private let table: RouteTable
    private let routes: [RoutePlan]
    private let clients: ClientRegistry
    private let requireClient: AccessPlan.RequireClient
    private let hostRule: HostRule
    private let originRule: OriginRule
    private let slots: [Slots]
    private let gates: [RouteGate]
    /// How strict those gates are that ask nothing else; nil for the others. Most routes are found here, side by side.
    private let plainGates: [CanonicalPath.Strictness?]

    /// Where a route puts its credential besides `Authorization`: an SDK that knows only that place can present its client
    /// token there.
    package struct Slots: Sendable {
        /// Lower case.
        let fields: [[UInt8]]
        /// The name of a query parameter as it is written.
        let query: [UInt8]?

        package init(fields: [[UInt8]], query: [UInt8]?) {
            self.fields = fields
            self.query = query
        }
    }

    package init(
        routes: [RoutePlan],
        slots: [Slots],
        access: AccessPlan,
        sha256: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) {
        table = RouteTable(routes)
        self.routes = routes
        self.slots = slots
        clients = ClientRegistry(access.clients, sha256: sha256)
        requireClient = access.requireClient
        hostRule = HostRule(table: table)
        gates = routes.map(RouteGate.init)
        plainGates = gates.map { $0.isPlain ? $0.strictness : nil }
        originRule = OriginRule(allowedOrigins: access.allowedOrigins.map { Array($0.lowercased().utf8) })
    }

    /// - Parameter last: Of the connection, since this configuration is in use.
    package func judge(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        on listener: ListenerIdentity,
        last: inout LastClient
    ) -> Verdict {
        let isAbsolute = head.form == .absolute
        guard let authority = Authority(bytes, isAbsolute ? head.targetAuthority : head.host) else {
            return refuse(GatewayProblem(.requestRefused, "The Host is not a host name."))
        }
        let upstream =
            isAbsolute
            ? table.findUpstream(
                bytes,
                scheme: head.asksForTLS(bytes) ? .https : .http,
                host: authority.host,
                port: authority.port,
                path: head.path
            ) : nil
        if upstream == nil, let problem = hostRule.refusal(bytes, authority, head, on: listener) {
            return refuse(problem)
        }
        if let problem = originRule.refusal(head, bytes) { return refuse(problem) }
        let match = upstream ?? table.find(bytes, host: authority.host, path: head.path)
        return authenticate(head, bytes, match: match, isProxyRequest: upstream != nil, on: listener, last: &last)
    }

    private func refuse(_ problem: GatewayProblem, route: Int? = nil, client: String? = nil) -> Verdict {
        .refused(Refusal(problem: problem, route: route, client: client))
    }

    // MARK: Client

    private func authenticate(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        match: RouteTable.Match?,
        isProxyRequest: Bool,
        on listener: ListenerIdentity,
        last: inout LastClient
    ) -> Verdict {
        var client: String?
        var stripsAuthorization = false
        var presented = false
        if !clients.isEmpty {
            for index in head.section.fields.indices {
                let field = head.section.fields[index]
                guard isCredentialField(field, bytes, match) else { continue }
                presented = true
                guard let name = clients.client(presenting: bytes, field.value, last: &last) else { continue }
                client = name
                if field.kind == .authorization { stripsAuthorization = true }
            }
            if client == nil, let match, let name = slots[match.route].query,
                let token = PresentedToken.read(bytes, query: head.query, parameter: name)
            {
                presented = true
                client = clients.client(presenting: token)
            }
        }
        guard client != nil || !requiresClient(on: listener) else {
            let detail =
                presented
                ? "The client token is not known to this gateway."
                : "Send a client token in Authorization or Proxy-Authorization (access.clients)."
            let kind: ProblemKind = isProxyRequest ? .proxyAuthRequired : .clientAuthRequired
            let cause = presented ? GatewayProblem.Cause(code: "invalid_token") : nil
            return refuse(GatewayProblem(kind, detail, cause: cause), route: match?.route)
        }
        guard let match else { return refuse(noRoute(isKnown: client != nil), client: client) }
        if let problem = forbid(client, match, head, bytes) {
            return refuse(problem, route: match.route, client: client)
        }
        return .admitted(Admitted(match: match, client: client, stripsAuthorization: stripsAuthorization))
    }

    private func isCredentialField(
        _ field: HeadField,
        _ bytes: borrowing Span<UInt8>,
        _ match: RouteTable.Match?
    ) -> Bool {
        if field.kind == .authorization || field.kind == .proxyAuthorization { return true }
        guard let match else { return false }
        for slot in slots[match.route].fields where bytes.equalsLowercased(field.name, slot) { return true }
        return false
    }

    private func requiresClient(on listener: ListenerIdentity) -> Bool {
        switch requireClient {
        case .true: true
        case .false: listener.reach == .network
        case .auto: listener.reach == .network || (listener.reach == .loopback && !clients.isEmpty)
        }
    }

    // MARK: Route

    private func noRoute(isKnown: Bool) -> GatewayProblem {
        // Without clients everybody who gets here is local; with clients only a known one learns the paths.
        guard isKnown || clients.isEmpty else { return GatewayProblem(.noRoute, "No route matches.") }
        let paths = routes.prefix(20).map(\.matchPath).joined(separator: ", ")
        return GatewayProblem(.noRoute, "No route matches. Known paths: \(paths)")
    }

    private func forbid(
        _ client: String?,
        _ match: RouteTable.Match,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> GatewayProblem? {
        if let strictness = plainGates[match.route] {
            return CanonicalPath.check(bytes, head.path, strictness: strictness).map(Self.refused)
        }
        let gate = gates[match.route]
        if let allowed = gate.clients, !(client.map(allowed.contains) ?? false) {
            return GatewayProblem(.routeForbidden, "This client may not use the route \(gate.name).")
        }
        if let ambiguity = CanonicalPath.check(bytes, head.path, strictness: gate.strictness) {
            return Self.refused(ambiguity)
        }
        if !gate.allow.isEmpty, let problem = gate.forbidByRule(match, head, bytes) { return problem }
        return gate.endpoints.isEmpty ? nil : gate.forbidEndpoint(match, head, bytes)
    }

    private static func refused(_ ambiguity: CanonicalPath.Ambiguity) -> GatewayProblem {
        GatewayProblem(.requestRefused, "The path has \(ambiguity.rawValue).")
    }
}
