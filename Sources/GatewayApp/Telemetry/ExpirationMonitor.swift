import GatewayEvents
import GatewayHTTP
import GatewayTokens
import Logging
import ServiceLifecycle

/// Announces, once each, what ends soon: in the log, and as `expiring_soon` in the audit log.
///
/// Tokens are left to their keepers, which announce them to the second.
struct ExpirationMonitor: Service {
    static let interval: Duration = .seconds(60)

    let expirations: @Sendable () async -> [Expiration]
    let audit: any AuditLog
    let clock: any GatewayClock
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown {
            var announced: Set<String> = []
            repeat {
                let soon = await expirations().filter { $0.isSoon && $0.kind != .token }
                for expiration in soon where announced.insert(Self.name(of: expiration)).inserted {
                    await announce(expiration)
                }
                // What was replaced may end again.
                announced.formIntersection(soon.map(Self.name))
            } while (try? await clock.sleep(for: Self.interval)) != nil
        }
    }

    private static func name(of expiration: Expiration) -> String {
        "\(expiration.kind.rawValue) \(expiration.of) \(expiration.endsAt)"
    }

    private func announce(_ expiration: Expiration) async {
        logger.warning(
            "Expires soon",
            metadata: [
                "kind": "\(expiration.kind.rawValue)", "of": "\(expiration.of)", "ends_at": "\(expiration.endsAt)",
                "action": "\(expiration.action)",
            ]
        )
        var event = TokenEvent(at: clock.now().wall, name: .expiringSoon)
        if expiration.kind != .certificate { event.credential = expiration.of }
        event.expiresAt = UnixTime(rfc3339: expiration.endsAt)
        event.detail = ["kind": expiration.kind.rawValue, "of": expiration.of]
        do throws(AuditError) {
            try await audit.record(event)
        } catch {
            logger.warning("Token event was lost", metadata: ["gateway.event": "expiring_soon"])
        }
    }
}
