import GatewayCore
import HTTPTypes
import Hummingbird

/// What the admin listener answers: one line per resource.
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
        router.get("/api/overview") { _, _ in AdminResponse.json(await options.control.overview()) }
        router.get("/api/routes") { _, _ in AdminResponse.json(await options.control.routes()) }
        router.get("/api/traffic") { _, _ in AdminResponse.json(await options.control.traffic()) }
        router.get("/api/expirations") { _, _ in AdminResponse.json(await options.control.expirations()) }
        router.get("/api/fleet") { _, _ in await fleet() }
        AdminTokens(options: options).routes(on: router)
        router.post("/api/reload") { _, _ in await reload() }
        router.post("/api/key/rotate") { _, _ in await rotateKey() }
        router.post("/api/state/backup") { request, _ in await noteBackup(request) }
        router.post("/api/ca/rotate") { _, _ in await rotateAuthority() }
        router.get("/api/plan") { _, _ in await servedPlan() }
        if let logins = options.logins { AdminLogins(control: logins, options: options).routes(on: router) }
        if let vending = options.vending {
            AdminVending(control: vending, adminToken: options.token).routes(on: router)
        }
        if let explanations = options.explanations {
            AdminExplanations(control: explanations).routes(on: router)
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

    private func fleet() async -> Response {
        switch await options.control.fleet() {
        case .success(let report): AdminResponse.json(report)
        case .failure(let problem): AdminResponse.problem(problem)
        }
    }

    private func reload() async -> Response {
        let report = await options.control.reload()
        return AdminResponse.json(report, status: report.outcome == .loaded ? .ok : .conflict)
    }

    private func rotateKey() async -> Response {
        switch await options.control.rotateKey() {
        case .success(let report): return AdminResponse.json(report)
        case .failure(let problem): return AdminResponse.problem(problem)
        }
    }

    private func noteBackup(_ request: Request) async -> Response {
        let body = try? await request.body.collect(upTo: 4096)
        let includesKeys = body.flatMap { JSONValue(Array($0.readableBytesView)) }?["keys"] == .bool(true)
        switch await options.control.noteBackup(includesKeys: includesKeys) {
        case .success(let note): return AdminResponse.json(note)
        case .failure(let problem): return AdminResponse.problem(problem)
        }
    }

    private func rotateAuthority() async -> Response {
        switch await options.control.rotateAuthority() {
        case .success(let report): return AdminResponse.json(report)
        case .failure(let problem): return AdminResponse.problem(problem)
        }
    }

    /// Not for everybody on the machine: digests of secrets are in it.
    private func servedPlan() async -> Response {
        guard let plan = await options.control.servedPlan() else {
            return AdminResponse.problem(GatewayProblem(.noRoute, "The plan of this gateway came from no file."))
        }
        return AdminResponse.json(plan)
    }
}
