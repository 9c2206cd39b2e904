import GatewayCore

/// A client's connection as its ``Worker`` sees it: what can come to all connections of an event loop.
protocol ClientConnection: AnyObject {
    /// Tells which listener accepted the connection.
    var listenerNumber: Int { get }
    /// A reload has come.
    ///
    /// - Parameter withdrawal: What the reload takes from requests of a configuration.
    func followReload(_ withdrawal: (ProxyShared) -> ReloadWithdrawal)
    func endIfWithdrawn(_ withdrawn: WithdrawnCredentials)
    /// Finishes what is under way, and closes.
    func drain()
    /// The gateway ends, whatever is under way.
    func stop()
}
