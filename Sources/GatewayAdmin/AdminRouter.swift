import GatewayCore
import HTTPTypes
import Hummingbird

/// What the admin listener answers: the operations of ``AdminAPI``, and the routes that are none.
struct AdminRouter: Sendable {
    private let options: AdminOptions

    init(options: AdminOptions) { self.options = options }

    func router() -> Router<AdminContext> {
        let router = Router(context: AdminContext.self, options: .autoGenerateHeadEndpoints)
        AdminPage(options: options).routes(on: router)
        AdminEvents(options: options).routes(on: router)
        router.get("/healthz") { _, _ in AdminResponse.text("ok\n", type: "text/plain; charset=utf-8") }
        router.get("/readyz") { request, _ in await readiness(isVerbose: request.uri.query?.contains("verbose") == true)
        }
        router.get("/metrics") { _, _ in
            AdminResponse.text(await options.metrics(), type: "text/plain; version=0.0.4; charset=utf-8")
        }
        router.get("/proxy.pac") { _, _ in
            let script = ProxyAutoConfig(await options.control.overview().proxy)
            return AdminResponse.text(script.text, type: ProxyAutoConfig.contentType)
        }
        router.get("/ca.pem") { _, _ in await authority() }
        for endpoint in AdminAPI.endpoints { endpoint.route(on: router, options) }
        TokenForms(options: options).routes(on: router)
        if let logins = options.logins { AdminLogins(control: logins, options: options).routes(on: router) }
        if let vending = options.vending {
            AdminVending(control: vending, adminToken: options.token).routes(on: router)
        }
        return router
    }

    private func readiness(isVerbose: Bool) async -> Response {
        let readiness = await options.control.readiness()
        let status: HTTPResponse.Status = readiness.isReady ? .ok : .serviceUnavailable
        if isVerbose { return AdminResponse.json(readiness, status: status) }
        return AdminResponse.text("\(readiness.text)\n", type: "text/plain; charset=utf-8", status: status)
    }

    private func authority() async -> Response {
        switch await options.localAuthorityPEM() {
        case .success(let certificates?): return AdminResponse.text(certificates, type: "application/x-pem-file")
        case .success(nil):
            let reason = "This gateway has no local authority; it makes one when it starts with intercept: true."
            return AdminResponse.problem(GatewayProblem(.noRoute, reason))
        case .failure(let problem): return AdminResponse.problem(problem)
        }
    }
}
