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

    func failed(of keeper: TokenKeeper, reason: String, code: String?, said: AuthorityError?) async {
        let members = said?.members() ?? [:]
        logger.warning(
            "Login failed",
            metadata: ["gateway.credential": "\(keeper.name)", "gateway.reason": "\(reason)"]
                .merging(members.map { ("gateway.\($0)", "\($1)") }) { $1 }
        )
        var event = event(.loginFailed, of: keeper, detail: members.merging(["reason": reason]) { $1 })
        event.outcome = .failed
        event.errorCode = code ?? ProblemKind.loginFailed.rawValue
        event.httpStatus = said?.status
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
