import GatewayCore
import Hummingbird

/// Whether a request may change something: it carries the admin token of the state directory.
struct AdminAuthorization: Sendable {
    let token: Secret

    /// - Returns: The refusal; nil when the request may.
    func refusal(of request: Request) -> Response? {
        guard isAuthorized(request) else {
            let detail = "Send the admin token of the state directory (file admin.token) as a bearer token."
            return AdminResponse.problem(GatewayProblem(.clientAuthRequired, detail))
        }
        return nil
    }

    /// Whether a person typed the admin token into a form; what a paste adds around it does not count.
    func accepts(typed text: String) -> Bool { token.matches(Array(text.utf8.filter { $0 > 0x20 })) }

    private func isAuthorized(_ request: Request) -> Bool {
        let scheme = "bearer "
        guard let value = request.headers[.authorization], value.lowercased().hasPrefix(scheme) else { return false }
        return token.matches(Array(value.utf8.dropFirst(scheme.utf8.count)))
    }
}
