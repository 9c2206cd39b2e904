import GatewayCore
import NIOCore

/// What is known of the request that a client connection is busy with.
///
/// A class, so that looking at it copies one reference and not all that it holds. Belongs to its connection's event loop.
final class ActiveExchange {
    /// Decides what happens next.
    var rules: Exchange
    /// What will be said of it when it is over; the rest of it is known as it goes on.
    var record: ExchangeRecord
    let head: ByteBuffer
    let match: RouteTable.Match
    var route: ServedRoute { state.route }
    /// What this event loop keeps for the route.
    var state: RouteState { prepared.state }
    let stripsAuthorization: Bool
    /// Where the route leaves the choice to the request.
    let chosen: (any CredentialSource)?
    var source: (any CredentialSource)? { chosen ?? route.source }

    var body: MessageBody
    /// The body as it came, framing included, while it can still be sent again; nil when there is none.
    var held: ByteBuffer?
    /// The route; what it injects counts once the request is authorized.
    private(set) var prepared: PreparedRoute
    /// It is known what is injected: ``credential``, or nothing.
    private(set) var isAuthorized = false
    var credential: Credential? { isAuthorized ? prepared.credential : nil }
    /// Of its credential, when the tunnel began.
    var timesWithdrawn = 0
    var upstream: UpstreamHandler?
    var ticket: CredentialTicket?
    var isWaiting = false
    /// In the queue for a connection to the upstream.
    var place: UInt64?
    /// The connection whose answer rejected the token, while the request waits to be sent again.
    var parked: UpstreamHandler?
    /// What the connection before this one has not taken anything of: goes over the next as it is.
    var unsent: ByteBuffer?
    /// What the response says of the token.
    var note = ResponseNote.none
    /// Of the body, without the framing of chunks.
    var contentReceived = 0

    init(
        _ record: consuming ExchangeRecord,
        head: ByteBuffer,
        admitted: RequestAuthorizer.Admitted,
        prepared: PreparedRoute,
        rules: consuming Exchange,
        body: MessageBody
    ) {
        self.rules = rules
        self.record = record
        self.head = head
        match = admitted.match
        stripsAuthorization = admitted.stripsAuthorization
        self.prepared = prepared
        chosen = admitted.chosen
        self.body = body
    }

    func authorize(with prepared: PreparedRoute) {
        if self.prepared !== prepared { self.prepared = prepared }
        isAuthorized = true
    }

    var demand: CredentialDemand {
        CredentialDemand(route: route.plan.name, client: record.client, requestID: record.requestID.description)
    }
}
