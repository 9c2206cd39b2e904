import GatewayHTTP
import GatewayLocalAuthority
import GatewayProxy
import HTTPTypes
import Hummingbird

/// A resource of the admin listener: what it asks of who uses it, and what answers.
struct AdminEndpoint: Sendable {
    typealias Respond = @Sendable (AdminOptions, Request, AdminContext) async throws -> Response

    let method: AdminMethod
    /// May have one parameter, such as `:name`.
    let path: String
    let demand: AdminRouteTable.Demand
    /// Whether it may take a right away, of clients or of users. It is not refused because it cannot be recorded.
    let withdraws: Bool
    let respond: Respond
    private let segments: [Substring]

    init(
        _ method: AdminMethod,
        _ path: String,
        _ demand: AdminRouteTable.Demand = .nothing,
        withdraws: Bool = false,
        respond: @escaping Respond
    ) {
        self.method = method
        self.path = path
        self.demand = demand
        self.withdraws = withdraws
        self.respond = respond
        segments = AdminRouteTable.segments(of: path)
    }

    fileprivate func matches(_ method: String, _ path: [Substring]) -> Bool {
        self.method.rawValue == method && path.count == segments.count
            && zip(segments, path).allSatisfy { $0 == $1 || ($0.first == ":" && !$1.isEmpty) }
    }
}

/// Every resource of the admin listener, each declared once. The router and the check of roles are made from this list.
enum AdminRouteTable {
    enum Demand: Hashable, Sendable {
        /// It shows nothing of the gateway, or asks for a proof by itself: a form, or the token of a client.
        case nothing
        case role(AdminRole)
        /// There is no such resource. What is forgotten here is for operators.
        case unknown

        /// nil where no proof is asked for.
        var role: AdminRole? {
            switch self {
            case .nothing: nil
            case .role(let role): role
            case .unknown: .operator
            }
        }
    }

    private static let endpoints: [AdminEndpoint] =
        AdminAPI.endpoints + AdminPage.endpoints + TokenForms.endpoints + ApprovalForms.endpoints + LoginForms.endpoints
        + AdminEvents.endpoints
        + [AdminVending.endpoint] + [
            // Probes.
            AdminEndpoint(.get, "/healthz") { _, _, _ in AdminResponse.plain("ok\n") },
            AdminEndpoint(AdminAPI.readiness.method, AdminAPI.readiness.path) { options, request, _ in
                try await readiness(options, isVerbose: request.uri.query?.contains("verbose") == true)
            },
            // What programs read.
            AdminEndpoint(.get, "/metrics", .role(.viewer)) { options, _, _ in
                AdminResponse.text(await options.metrics(), type: "text/plain; version=0.0.4; charset=utf-8")
            },
            AdminEndpoint(.get, "/proxy.pac", .role(.viewer)) { options, _, _ in
                let script = ProxyAutoConfig(try await AdminAPI.operations.overview.answer(options.control).proxy)
                return AdminResponse.text(script.text, type: ProxyAutoConfig.contentType)
            },
            AdminEndpoint(.get, "/ca.pem", .role(.viewer)) { options, _, _ in await authority(options) },
        ]

    static func router(_ options: AdminOptions) -> Router<AdminContext> {
        let router = Router(context: AdminContext.self, options: .autoGenerateHeadEndpoints)
        for endpoint in endpoints {
            let method: HTTPRequest.Method =
                switch endpoint.method {
                case .get: .get
                case .post: .post
                case .delete: .delete
                }
            router.on(RouterPath(endpoint.path), method: method) { request, context in
                try await endpoint.respond(options, request, context)
            }
        }
        return router
    }

    /// - Parameters:
    ///   - method: In upper case.
    ///   - path: The path as it came. A path that is written in another way is unknown.
    ///   - hasQuery: `/readyz` shows more with one.
    static func demand(method: String, path: String, hasQuery: Bool = false) -> Demand {
        let method = method == "HEAD" ? "GET" : method
        let readiness = AdminAPI.readiness
        if hasQuery, method == readiness.method.rawValue, path == readiness.path { return .role(readiness.role) }
        let segments = segments(of: path)
        return endpoints.first { $0.matches(method, segments) }?.demand ?? .unknown
    }

    /// Whether a request may take a right away, of clients or of users. It is not refused because it cannot be recorded.
    static func mayWithdraw(method: String, path: String) -> Bool {
        let segments = path.split(separator: "/")
        return endpoints.contains { $0.withdraws && $0.matches(method, [""] + segments) }
    }

    fileprivate static func segments(of path: String) -> [Substring] {
        path.split(separator: "/", omittingEmptySubsequences: false)
    }

    private static func readiness(_ options: AdminOptions, isVerbose: Bool) async throws(GatewayProblem) -> Response {
        let readiness = try await AdminAPI.readiness.answer(options.control)
        let status: HTTPResponse.Status = readiness.isReady ? .ok : .serviceUnavailable
        if isVerbose { return AdminResponse.json(readiness, status: status) }
        return AdminResponse.plain("\(readiness.text)\n", status: status)
    }

    private static func authority(_ options: AdminOptions) async -> Response {
        switch await options.localAuthorityPEM() {
        case .success(let certificates?): return AdminResponse.text(certificates, type: "application/x-pem-file")
        case .success(nil):
            let reason = "This gateway has no local CA; it makes one when it starts with intercept: true."
            return AdminResponse.problem(GatewayProblem(.noRoute, reason))
        case .failure(let problem): return AdminResponse.problem(problem)
        }
    }
}
