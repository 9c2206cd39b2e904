import GatewayCore
import GatewayTokens

/// Asks an authority for what a login on another device needs (RFC 8628).
struct DeviceLoginClient: Sendable {
    let flow: any DeviceLoginFlow
    let credential: String
    let endpoint: any TokenEndpoint
    let clock: any GatewayClock

    func code() async -> Result<DeviceCode, GatewayProblem> {
        switch flow.begin(nonce: Self.nonce(), at: clock.now()) {
        case .failure(let problem): return .failure(problem)
        case .success(let request):
            switch await endpoint.send(request, deadline: TokenKeeper.callDeadline) {
            case .success(let reply): return flow.code(in: reply, at: clock.now())
            case .failure(let failure):
                return .failure(TokenFailure(explaining: failure, of: request, credential: credential).problem)
            }
        }
    }

    func token(for code: DeviceCode) async -> DevicePolling.Event {
        switch flow.poll(code, nonce: Self.nonce(), at: clock.now()) {
        case .failure(let problem): return .answered(.refused(problem, reason: "not_asked"))
        case .success(let request):
            switch await endpoint.send(request, deadline: TokenKeeper.callDeadline) {
            case .success(let reply): return .answered(flow.interpret(reply, at: clock.now()))
            case .failure(let failure):
                let explained = TokenFailure(explaining: failure, of: request, credential: credential)
                return .unanswered(explained, because: failure.reason)
            }
        }
    }

    private static func nonce() -> String {
        Hexadecimal.random(bytes: 16)
    }
}

extension LoginInvitation {
    init(id: String, credential: String, code: DeviceCode, timeout: Duration) {
        self.init(
            id: id,
            credential: credential,
            page: code.page,
            start: nil,
            redirect: "",
            isManual: false,
            code: code.userCode,
            timeoutSeconds: Int(timeout.wholeMilliseconds / 1000)
        )
    }
}
