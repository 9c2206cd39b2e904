package import GatewayConfiguration
package import GatewayEvents
package import GatewayHTTP
package import GatewayProxy

/// The part of a configuration that commands beside a running gateway need: where it listens and where its files are.
///
/// Decoded without the rest, so that `status` works in a shell that has none of the gateway's secrets.
package struct OperatorPlan: Sendable {
    package let stateDirectory: String
    package var admin: AdminPlan
    package let audit: AuditPlan
    package let tokens: TokenPlan
    package let names: ConfiguredNames

    /// nil when the document is not a mapping; problems are recorded in `context`.
    ///
    /// - Parameter readsDatabase: Whether `tokens` is read with the database, whose password few have.
    package init?(_ document: ConfigDocument, context: ConfigContext, readsDatabase: Bool = false) {
        guard let fields = ConfigFields(document.root, path: .root, context: context) else { return nil }
        fields.explain(PlanDecoder.keys)
        stateDirectory = PlanDecoder.stateDirectory(fields)
        let access = AccessPlan(clients: [], allowedOrigins: [], requireClient: .auto)
        let admin = fields.fields("listeners")?.fields("admin")
        var place = admin.flatMap(AdminDecoder.place)
        // Commands of this machine need no certificate.
        if admin?.has("tls") ?? false { place?.address = AdminPlan.localSocket(in: stateDirectory) }
        self.admin = place ?? ListenerDecoder.decode(nil, at: fields.span, access: access).admin
        audit = AuditPlan.decode(fields.fields("audit"), stateDirectory: stateDirectory)
        names = ConfiguredNames(document.root)
        tokens = TokenPlan.decode(
            fields.fields("tokens"),
            stateDirectory: stateDirectory,
            readsDatabase: readsDatabase
        )
    }
}

extension OperatorPlan {
    /// What a running gateway has recorded of itself, for a command that cannot read its configuration. It is enough to ask the
    /// gateway and to read its audit log, not to work on its files.
    ///
    /// - Returns: nil where the record says too little.
    package init?(_ gateway: ConfigLocator.RunningGateway) {
        guard let places = gateway.places, let address = ListenerPlan.Address(localAdmin: places.admin) else {
            return nil
        }
        stateDirectory = gateway.stateDirectory
        admin = AdminPlan(address: address)
        audit = AuditPlan(path: places.audit, usage: .none, retention: .zero, onFailure: .block)
        tokens = TokenPlan(store: .memory, path: "", key: .file(path: places.key ?? ""))
        names = ConfiguredNames()
    }
}

/// What the configuration says of the token of a client.
package enum ConfiguredClientToken: Sendable {
    case token(Secret)
    /// `token_sha256`: the configuration does not hold the token.
    case digest
    /// There is no such client, or what it has is no token; the context of the document may say more.
    case none

    package init(of client: String, in document: ConfigDocument, context: ConfigContext) {
        let clients = ConfigFields(document.root, path: .root, context: context)?.fields("access")?.fields("clients")
        guard let own = clients?.fields(client) else {
            self = .none
            return
        }
        self =
            own.has("token_sha256")
            ? .digest : own.secrets("token", upTo: AccessPlan.Client.maximumTokens).first.map { .token($0) } ?? .none
    }
}

/// The names that a configuration gives. Read without the rest, so that a value that is wrong or not at hand does not matter.
package struct ConfiguredNames: Hashable, Sendable {
    package private(set) var credentials: [String] = []
    package private(set) var clients: [String] = []
    package private(set) var routes: [String] = []
    /// Scheme, host and port, by route.
    package private(set) var upstreams: [String: String] = [:]

    /// Without a configuration there are none.
    package init() {}

    init(_ root: ConfigNode) {
        credentials = root.entries(of: "credentials").map(\.key)
        clients = (root.value(of: "access")?.entries(of: "clients") ?? []).map(\.key)
        for route in root.entries(of: "routes") {
            routes.append(route.key)
            if let auth = route.value.value(of: "auth"), auth.value(of: "strategy") != nil {
                credentials.append("routes.\(route.key)")
            }
            if case .scalar(let upstream)? = route.value.value(of: "upstream")?.content {
                upstreams[route.key] = (try? UpstreamURL(upstream.text))?.origin.description
            }
        }
    }
}
