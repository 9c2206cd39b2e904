/// A server without a route that a client may reach: by CONNECT, and bytes pass as they are; or with a plain request.
package struct TunnelDestination: Sendable {
    package struct Dialled: Sendable {
        package let address: IPAddress
        /// This machine has it.
        package let isOwn: Bool

        package init(address: IPAddress, isOwn: Bool) {
            self.address = address
            self.isOwn = isOwn
        }
    }

    /// In lower case, without a port, brackets and the dot of the root.
    package let host: String
    package let port: Int
    /// The client has written a name with that dot.
    let isRooted: Bool
    /// nil where none is known.
    package let client: String?
    /// The value of the field that proved who the client is; nil when none did.
    let proof: [UInt8]?
    /// Where the connection leads; nil before that.
    package var dialled: Dialled?
    private let plan: ConnectPlan

    init(host: String, port: Int, isRooted: Bool, client: String?, proof: [UInt8]?, plan: ConnectPlan) {
        self.host = host
        self.port = port
        // A resolver takes an address with that dot for a name, which may lead elsewhere.
        let origin = Origin(scheme: .http, host: host, port: port)
        self.isRooted = isRooted && !origin.isAddress && !origin.isLoopback
        self.client = client
        self.proof = proof
        self.plan = plan
    }

    /// Whether that address may be dialled: one that the name had when it was judged, not one that it has later.
    ///
    /// - Parameter isOwn: This machine has it.
    package func admits(_ address: IPAddress, isOwn: Bool) -> Bool { plan.admits(address, of: host, isOwn: isOwn) }

    /// Where a plain request goes.
    package var plainOrigin: Origin { Origin(scheme: .http, host: lookupName, port: port) }

    /// As it is resolved: with the dot of the root a resolver tries no search domain (RFC 1034 section 3.1).
    package var lookupName: String { isRooted ? host + "." : host }

    /// Whether a plain request that came before would go to the same server now: a reload has come.
    ///
    /// - Parameter new: What becomes of the request now.
    package func stillAdmitted(by new: TunnelDestination) -> Bool {
        guard new.host == host, new.port == port, new.isRooted == isRooted, new.client == client, let dialled else {
            return false
        }
        return new.admits(dialled.address, isOwn: dialled.isOwn)
    }

    /// As people write it.
    package var authority: String { Origin.hostAndPort(host, port) }
}
