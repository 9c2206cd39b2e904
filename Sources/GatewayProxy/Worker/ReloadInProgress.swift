import GatewayHTTP
import NIOCore

/// Decides what becomes of the requests of one worker that began before a reload: each goes on, begins again or ends.
///
/// It asks the new configuration about each, and ``ReloadWithdrawal`` what the reload takes away. Connections get it passed with
/// ``ClientConnection/followReload(_:)`` and carry out what it says.
final class ReloadInProgress {
    private let new: ProxyShared
    /// By earlier configuration: a request under way may have begun several reloads ago.
    private var withdrawals: [ObjectIdentifier: ReloadWithdrawal] = [:]
    private var keepsRules: [ObjectIdentifier: Bool] = [:]

    /// - Parameter new: Serves new requests already.
    init(to new: ProxyShared) { self.new = new }

    /// Has an exchange go on, or end.
    ///
    /// - Returns: Whether its connection has to authorize the request again under the new configuration. In this case the exchange is
    ///   over.
    func apply(to exchange: ExchangeDriver) -> Bool {
        exchange.followReload(withdrawal(from: exchange.shared), verdict(on: exchange))
    }

    /// Whether the new configuration admits the request of an exchange in the same way.
    func admits(_ exchange: ExchangeDriver) -> Bool { verdict(on: exchange) == .admitted }

    /// Whether it ends a tunnel whose exchange is over.
    func ends(_ exchange: ExchangeDriver) -> Bool {
        exchange.isOver(by: withdrawal(from: exchange.shared), verdict(on: exchange))
    }

    /// Whether it takes away the right of a request whose head is gone.
    func ends(_ right: SentRight) -> Bool {
        let id = ObjectIdentifier(right.shared)
        let known = keepsRules[id] ?? new.hasRules(of: right.shared)
        keepsRules[id] = known
        return right.isOver(by: withdrawal(from: right.shared), keepsRules: known)
    }

    private func withdrawal(from served: ProxyShared) -> ReloadWithdrawal {
        let id = ObjectIdentifier(served)
        let known = withdrawals[id] ?? served.withdrawal(by: new)
        withdrawals[id] = known
        return known
    }

    /// What the new configuration decides about the request of an exchange.
    private func verdict(on exchange: ExchangeDriver) -> ReloadWithdrawal.Verdict {
        let (request, connection) = (exchange.client.request, exchange.client.connectionContext)
        var cache = ClientAuthenticationCache()
        switch new.authorizer.decide(request, on: connection, cache: &cache) {
        case .refused(let refusal):
            let bytes = request.bytes
            return new.authorizer.verdict(
                refusal,
                of: exchange.clientName,
                request.decoder.head,
                bytes.readableBytesUInt8Span,
                on: connection
            )
        case .preflight: return .other
        case .unrouted(let unrouted):
            guard let server = exchange.server, server.stillAdmitted(by: unrouted.server) else { return .other }
            let parent = exchange.shared.parent(ofUnrouted: server.plainOrigin)
            return new.stillReaches(server.plainOrigin, through: parent) ? .admitted : .other
        case .admitted(let admitted):
            guard exchange.goes(by: new.routes[admitted.match.route], as: admitted.client) else { return .other }
            let bytes = request.bytes
            let rules = new.authorizer.bodyRules(
                of: request.decoder.head,
                bytes.readableBytesUInt8Span,
                admitted.match
            )
            let goesOn = BodyRules.letsGoOn(
                exchange.bodyRules,
                under: rules,
                isFiltered: exchange.isFiltered,
                isApproved: exchange.isApproved
            )
            return goesOn ? .admitted : .refused
        }
    }
}
