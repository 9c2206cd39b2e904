import GatewayCore
import Logging
import ServiceLifecycle

/// Announces, once each, what ends soon: in the log, and as `expiring_soon` in the audit log.
///
/// Tokens are left to their keepers, which announce them to the second.
struct ExpirationMonitor: Service {
    static let interval: Duration = .seconds(60)

    let endings: @Sendable () async -> [Expiration]
    let audit: any AuditLog
    let clock: any GatewayClock
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown {
            var announced: Set<String> = []
            repeat {
                let soon = await endings().filter { $0.isSoon && $0.kind != .token }
                for ending in soon where announced.insert(Self.name(of: ending)).inserted { await announce(ending) }
                // What was replaced may end again.
                announced.formIntersection(soon.map(Self.name))
            } while (try? await clock.sleep(for: Self.interval)) != nil
        }
    }

    private static func name(of ending: Expiration) -> String {
        "\(ending.kind.rawValue) \(ending.of) \(ending.endsAt)"
    }

    private func announce(_ ending: Expiration) async {
        logger.warning(
            "Ends soon",
            metadata: [
                "kind": "\(ending.kind.rawValue)", "of": "\(ending.of)", "ends_at": "\(ending.endsAt)",
                "action": "\(ending.action)",
            ]
        )
        var event = TokenEvent(at: clock.now().wall, name: .expiringSoon)
        if ending.kind != .certificate { event.credential = ending.of }
        event.expiresAt = UnixTime(rfc3339: ending.endsAt)
        event.detail = ["kind": ending.kind.rawValue, "of": ending.of]
        do throws(AuditError) {
            try await audit.record(event)
        } catch {
            logger.warning("Token event was lost", metadata: ["gateway.event": "expiring_soon"])
        }
    }
}
