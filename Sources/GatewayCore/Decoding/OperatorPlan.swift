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
        fields.explain(PlanDecoder.meanings)
        stateDirectory = PlanDecoder.stateDirectory(fields)
        let access = AccessPlan(clients: [], allowedOrigins: [], requireClient: .auto)
        let admin = fields.fields("listeners")?.fields("admin")
        var place = admin.flatMap(ListenerDecoder.adminPlace)
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
