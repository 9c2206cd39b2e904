import GatewayCore
import GatewayTokenKeeper
import Logging

/// Records the events of logins in the audit log.
struct LoginEvents {
    let audit: any AuditLog
    let clock: any GatewayClock
    let logger: Logger

    func started(of keeper: TokenKeeper, isManual: Bool) async {
        await record(event(.loginStarted, of: keeper, detail: ["by": isManual ? "paste" : "redirect"]))
    }

    func failed(of keeper: TokenKeeper, reason: String, code: String?, status: Int?) async {
        var event = event(.loginFailed, of: keeper, detail: ["reason": reason])
        event.outcome = .failed
        event.errorCode = code ?? ProblemKind.loginFailed.rawValue
        event.httpStatus = status
        await record(event)
    }

    private func event(_ name: TokenEvent.Name, of keeper: TokenKeeper, detail: [String: String]) -> TokenEvent {
        TokenEvent(
            at: clock.now().wall,
            name: name,
            credential: keeper.name,
            strategy: keeper.strategy,
            trigger: .operator,
            detail: detail
        )
    }

    private func record(_ event: TokenEvent) async {
        do throws(AuditError) {
            try await audit.record(event)
        } catch {
            logger.warning("Login event was lost", metadata: ["gateway.reason": "\(error.reason)"])
        }
    }
}
