package import GatewayHTTP

/// Where gateways of one token store know each other.
package protocol SharedFleet: Sendable {
    /// Writes what a gateway tells of itself. Gateways that were not seen for a day are removed.
    ///
    /// - Returns: The time of the store's clock.
    func beat(_ heartbeat: FleetHeartbeat) async throws(TokenStoreError) -> UnixTime

    /// Removes a gateway that stops.
    func leave(_ id: String) async throws(TokenStoreError)

    /// Those that were seen within a day, the one that was seen last first.
    func members() async throws(TokenStoreError) -> [FleetMember]

    /// Tells all gateways to follow at once.
    ///
    /// - Returns: A mark for all that was committed until now.
    func call() async throws(TokenStoreError) -> FleetMark

    /// An element after each ``call()`` of any gateway; several may be one. It is a hint: some may be missing.
    func calls() -> AsyncStream<Void>
}
