package import GatewayCore

/// What each resource of the admin listener asks of who uses it.
package enum AdminRouteTable {
    package enum Demand: Hashable, Sendable {
        /// It shows nothing of the gateway, or asks for a proof by itself: a form, or the token of a client.
        case nothing
        case role(AdminRole)
        /// There is no such resource. What is forgotten here is for operators.
        case unknown

        /// nil where no proof is asked for.
        package var role: AdminRole? {
            switch self {
            case .nothing: nil
            case .role(let role): role
            case .unknown: .operator
            }
        }
    }

    /// - Parameters:
    ///   - method: In upper case.
    ///   - path: As it came. One that is written in another way is unknown.
    ///   - hasQuery: `/readyz` shows more with one.
    package static func demand(method: String, path: String, hasQuery: Bool = false) -> Demand {
        let method = method == "HEAD" ? "GET" : method
        if hasQuery, method == "GET", path == "/readyz" { return .role(.viewer) }
        let segments = path.split(separator: "/", omittingEmptySubsequences: false)
        return rows.first { $0.method == method && $0.matches(segments) }?.demand ?? .unknown
    }

    /// Whether a request may take a right away, of clients or of users. It is not refused because it cannot be recorded.
    static func mayWithdraw(method: String, path: String) -> Bool {
        let segments = path.split(separator: "/")
        return rows.contains { $0.withdraws && $0.method == method && $0.matches([""] + segments) }
    }

    private struct Row: Sendable {
        let method: String
        let segments: [Substring]
        let demand: Demand
        let withdraws: Bool

        init(_ method: String, _ path: String, _ demand: Demand, withdraws: Bool = false) {
            self.method = method
            segments = path.split(separator: "/", omittingEmptySubsequences: false)
            self.demand = demand
            self.withdraws = withdraws
        }

        init(_ endpoint: AdminEndpoint) {
            self.init(endpoint.method.rawValue, endpoint.path, .role(endpoint.role), withdraws: endpoint.withdraws)
        }

        func matches(_ path: [Substring]) -> Bool {
            path.count == segments.count
                && zip(segments, path).allSatisfy { $0 == $1 || ($0.first == ":" && !$1.isEmpty) }
        }
    }

    private static let rows: [Row] = others + AdminAPI.endpoints.map(Row.init)

    /// The routes that are not in ``AdminAPI``.
    private static let others: [Row] = [
        // Pages and forms. They ask for a proof where they show or do something.
        Row("GET", "/", .nothing), Row("POST", "/", .nothing),
        Row("GET", "/explain", .nothing), Row("POST", "/explain", .nothing),
        // The form says in its content which operation it is. Each records by itself what it does.
        Row("GET", "/token", .nothing), Row("POST", "/token", .nothing, withdraws: true),
        Row("GET", "/login", .nothing), Row("POST", "/login", .nothing), Row("POST", "/login/answer", .nothing),
        Row("GET", "/style.css", .nothing), Row("GET", "/script.js", .nothing), Row("GET", "/icon.svg", .nothing),
        // Probes.
        Row("GET", "/healthz", .nothing), Row("GET", "/readyz", .nothing),
        // Clients prove themselves as on the data plane.
        Row("POST", "/tokens/:name", .nothing),
        // What is to be seen.
        Row("GET", "/metrics", .role(.viewer)), Row("GET", "/proxy.pac", .role(.viewer)),
        Row("GET", "/ca.pem", .role(.viewer)),
        Row("GET", "/live", .role(.viewer)), Row("GET", "/api/events", .role(.viewer)),
    ]
}
