extension Plan {
    /// The plan of a gateway that serves one program (`exec --ephemeral`): the routes and credentials of this plan, on a loopback
    /// port that is free, with all its files in `folder`.
    ///
    /// Tokens are kept in memory. A second gateway that spent the refresh tokens of the store would end its logins.
    package func ephemeral(in folder: String) -> Plan {
        var plan = self
        let span = listeners.first?.span ?? SourceSpan(file: 0, line: 1, column: 1)
        // The program also asks servers without a route. Where no listener says which of them pass, public ones do.
        let connect = listeners.map(\.connect).first { $0.unrouted == .tunnel } ?? ConnectPlan(unrouted: .tunnel)
        let loopback = ListenerPlan.Address.tcp(host: "127.0.0.1", port: 0)
        plan.stateDirectory = folder
        plan.listeners = [ListenerPlan(address: loopback, intercepts: true, connect: connect, span: span)]
        plan.authz = []
        let socket = "\(folder)/admin.sock"
        let isShort = socket.utf8.count <= ListenerPlan.Address.maximumSocketPath
        plan.admin = AdminPlan(
            address: isShort ? .unix(path: socket, allowedUsers: []) : loopback,
            requiresToken: true
        )
        plan.audit.path = "\(folder)/audit.sqlite"
        plan.audit.anchor = nil
        plan.audit.store = .sqlite
        plan.tokens = TokenPlan(
            store: .memory,
            path: "\(folder)/tokens.sqlite",
            key: .file(path: "\(folder)/token.key")
        )
        // The program has ended by then: what it has left behind is not worth a long wait.
        plan.limits.drain = .seconds(1)
        return plan
    }
}
