import GatewayHTTP

/// Where operators reach the gateway, and who they are.
package struct AdminPlan: Hashable, Sendable {
    package var address: ListenerPlan.Address
    /// nil: without TLS, so on loopback or a unix socket only.
    package var tls: ListenerPlan.TLS?
    /// Whether a proof is needed to see something, and not only to change it.
    package var requiresToken: Bool
    /// Besides who holds the admin token of the state directory.
    package var users: [AdminUser]

    package init(
        address: ListenerPlan.Address,
        tls: ListenerPlan.TLS? = nil,
        requiresToken: Bool = false,
        users: [AdminUser] = []
    ) {
        self.address = address
        self.tls = tls
        self.requiresToken = requiresToken
        self.users = users
    }
}

extension AdminPlan {
    /// Where the commands of this machine find a gateway whose admin listener speaks TLS: they need no certificate there.
    package static func localSocket(in stateDirectory: String) -> ListenerPlan.Address {
        .unix(path: "\(stateDirectory)/admin.sock", allowedUsers: [])
    }
}

extension ListenerPlan.Address {
    /// An admin listener of this machine: `unix:PATH`, or `http://HOST:PORT` on loopback.
    ///
    /// A name such as `x.localhost` is refused: a resolver may ask another machine for it.
    package init?(localAdmin text: String) {
        if text.hasPrefix("unix:") {
            let path = text.dropFirst("unix:".count)
            guard !path.isEmpty, path.utf8.count <= Self.maximumSocketPath else { return nil }
            self = .unix(path: String(path), allowedUsers: [])
            return
        }
        let prefix = "http://"
        guard text.lowercased().hasPrefix(prefix) else { return nil }
        var authority = text.dropFirst(prefix.count)
        if authority.last == "/" { authority.removeLast() }
        guard let origin = Origin(scheme: .http, authority: String(authority)),
            origin.isLoopbackAddress || origin.host == "localhost"
        else { return nil }
        self = .tcp(host: origin.host, port: origin.port)
    }
}

/// What a user of the admin listener may do.
package enum AdminRole: String, CaseIterable, Sendable {
    /// Sees the page, the status, events and metrics.
    case viewer
    /// Also changes what the gateway does, and sees tokens.
    case `operator`
}

/// A person or program that may use the admin listener.
package struct AdminUser: Hashable, Sendable {
    package var role: AdminRole
    /// The name, and what proves it: as for a client.
    package var proofs: AccessPlan.Client

    /// Whether the user may approve requests. What proves it is neither in the configuration nor in a file that it names, where a
    /// program of the same user could read it.
    package var mayApprove: Bool {
        guard role == .operator else { return false }
        return proofs.tokens.allSatisfy { if case .tokenSHA256 = $0 { true } else { false } }
    }
}
