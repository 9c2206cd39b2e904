/// Who is told names from the configuration: of routes, credentials, strategies, upstreams and commands.
package enum NameDisclosure {
    /// Names are for known clients.
    ///
    /// If no client is configured, they are for everyone who can reach a local listener: loopback, or a unix socket, whose
    /// peer the kernel has let in. An engine may pass an answer on to anybody.
    ///
    /// - Parameters:
    ///   - client: The one that sent the request; nil where it is not known.
    ///   - hasClients: `access.clients` names at least one.
    package static func isAllowed(
        to client: String?,
        on reach: ConnectionContext.Reach,
        hasClients: Bool
    ) -> Bool {
        client != nil || (!hasClients && reach != .network && reach != .engine)
    }
}
