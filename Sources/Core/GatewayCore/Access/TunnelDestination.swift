/// The server that a client has asked for by CONNECT, and to which bytes pass as they are.
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

    /// In lower case, without a port and brackets.
    package let host: String
    package let port: Int
    /// nil where none is known.
    package let client: String?
    /// The value of the field that proved who the client is; nil when none did.
    let proof: [UInt8]?
    /// Where the tunnel leads; nil before that.
    package var dialled: Dialled?
    private let plan: ConnectPlan

    init(host: String, port: Int, client: String?, proof: [UInt8]?, plan: ConnectPlan) {
        self.host = host
        self.port = port
        self.client = client
        self.proof = proof
        self.plan = plan
    }

    /// Whether that address may be dialled: one that the name had when it was judged, not one that it has later.
    ///
    /// - Parameter isOwn: This machine has it.
    package func admits(_ address: IPAddress, isOwn: Bool) -> Bool { plan.admits(address, of: host, isOwn: isOwn) }

    /// As people write it.
    package var authority: String { Origin.hostAndPort(host, port) }
}
