package import GatewayHTTP
package import Logging
import Synchronization

/// Sends token requests as the endpoint behind it does, and measures how far each authorization server's clock is from ours.
package final class AuthorityClocks: TokenEndpoint {
    private let endpoint: any TokenEndpoint
    private let clock: any GatewayClock
    private let logger: Logger
    private let record = Mutex(ClockSkewRecord())

    package init(measuring endpoint: any TokenEndpoint, clock: any GatewayClock, logger: Logger) {
        self.endpoint = endpoint
        self.clock = clock
        self.logger = logger
    }

    package func send(
        _ request: TokenRequest,
        deadline: Duration
    ) async -> Result<TokenReply, TokenTransportFailure> {
        let start = clock.now()
        return await endpoint.send(request, deadline: deadline).map { reply in
            var reply = reply
            reply.clockSkewSeconds = ClockSkew.seconds(in: reply, sentAt: start, receivedAt: clock.now())
            if let seconds = reply.clockSkewSeconds { take(seconds, of: request.url.origin) }
            return reply
        }
    }

    /// The largest difference to these authorization servers, theirs minus ours; nil when it is unknown, or when the clocks agree.
    package func skewSeconds(of authorities: [AuthorityEndpoint]) -> Int? {
        record.withLock { $0.seconds(of: authorities.map(\.origin)) }
    }

    private func take(_ seconds: Int, of authority: Origin) {
        let metadata: Logger.Metadata = [
            "gateway.authority": "\(authority)", "gateway.clock_skew_seconds": "\(seconds)",
        ]
        switch record.withLock({ $0.take(seconds, of: authority) }) {
        case .differs?: logger.warning("\(ClockSkew.advice(seconds) ?? "The clocks differ.")", metadata: metadata)
        case .agrees?: logger.notice("The clock agrees with the authorization server's again", metadata: metadata)
        case nil: break
        }
    }
}
