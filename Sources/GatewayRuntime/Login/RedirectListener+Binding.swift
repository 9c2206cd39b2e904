import GatewayAdmin
import GatewayCore
import GatewayFiles
import Logging
import NIOCore
import NIOPosix

extension RedirectListener {
    /// Where the browser comes back to; nil where the answer is pasted.
    static func awaited(for order: LoginOrder, _ place: LoginRedirect) -> LoopbackRedirect? {
        guard order.way == .browser, case .loopback(let redirect) = place else { return nil }
        return redirect
    }

    /// The listener that waits for the browser. nil where none is wanted, or none can be reached; no program listens on the
    /// port then.
    ///
    /// - Parameter deliver: See ``init(group:redirect:logger:deliver:)``.
    static func bound(
        for order: LoginOrder,
        _ place: LoginRedirect,
        logger: Logger,
        deliver: @escaping @Sendable (_ address: String) async -> LoginProgress
    ) async -> Result<(RedirectListener?, port: Int), GatewayProblem> {
        guard let redirect = awaited(for: order, place) else {
            return .success((nil, Int.random(in: 49_152...65_535)))
        }
        let listener = RedirectListener(
            group: MultiThreadedEventLoopGroup.singleton,
            redirect: redirect,
            logger: logger,
            deliver: deliver
        )
        do {
            return .success((listener, try await listener.bind()))
        } catch {
            let address = redirect.authority(port: redirect.port ?? 0)
            let reason = (error as? IOError).map { SystemError.text($0.errnoCode) } ?? "no such address"
            let detail =
                "Cannot wait for the browser on \(address), where redirect_uri leads: \(reason). Free the port, or paste"
                + " the answer."
            let command = GatewayCommand.line("login", "--manual", order.credential)
            return .failure(GatewayProblem(.loginFailed, detail, command: command))
        }
    }
}
