import GatewayApp
import GatewayEvents
import GatewayHTTP
import GatewayProxy
import GatewaySandbox

/// What `run` prints when it is ready: where it listens, the routes, what each needs, and lines to paste.
struct Banner {
    private let addresses: [String]
    /// Where engines ask, each with its name.
    private let engines: [String]
    private let admin: String
    private let pageNote: String
    private let plan: Plan
    private let routes: [RouteStatus]
    private let sandbox: Sandbox.Addresses?

    init(gateway: Gateway, routes: [RouteStatus], sandbox: Sandbox.Addresses?) {
        addresses = gateway.listeners.map(\.boundText)
        engines = gateway.engineListeners.compactMap { listener in
            listener.engine.map { "\($0) at \(listener.boundText)" }
        }
        admin = gateway.admin.boundText
        pageNote = if case .tcp = gateway.admin.address { "  (status page)" } else { "" }
        plan = gateway.plan
        self.routes = routes
        self.sandbox = sandbox
    }

    var text: String {
        var table = TextTable("ROUTE", "PATH", "UPSTREAM", "CREDENTIAL", "STRATEGY", "NEEDS")
        for route in routes {
            table.add(
                route.name,
                route.path,
                route.upstream,
                route.credential ?? "none",
                route.strategy,
                route.needs ?? need(of: route)
            )
        }
        let lines = (curlLines + [auditLine]).map { "  \($0)\n" }.joined()
        return """
            AuthGateway \(GatewayVersion.current)
              proxy  \(addresses.joined(separator: ", "))
              admin  \(admin)\(pageNote)\(engineLine)
              state  \(plan.stateDirectory)

            \(table.text(.current))
            Try it:
            \(lines)
            Ctrl-C stops it.

            """
    }

    private var engineLine: String { engines.isEmpty ? "" : "\n  authz  \(engines.joined(separator: ", "))" }

    private func need(of route: RouteStatus) -> String {
        let isOpen = plan.routes.first { $0.name == route.name }?.clients == nil && !plan.access.asksForClients
        return isOpen ? "nothing" : "a client token"
    }

    private var curlLines: [String] {
        guard let base = addresses.first(where: { $0.hasPrefix("http") }) else { return [ask("/api/routes")] }
        let curl = plan.access.asksForClients ? ShellWord.bearer(from: "CLIENT_TOKEN_FILE") + "curl -H @-" : "curl"
        var seen: Set<Origin> = []
        // One route of each upstream shows more than two of the same. The sandbox answers without an account.
        let samples = zip(plan.routes, routes).filter {
            !$0.0.matchesAll && $0.1.needs == nil && seen.insert($0.0.upstream).inserted
        }
        let known = samples.filter { samplePath(of: $0.0) != "/" }
        let requests = (known.isEmpty ? samples : known).prefix(2).map { plan, _ in
            let path = plan.matchPath == "/" ? "" : plan.matchPath
            return "\(curl) \(base)\(path)\(samplePath(of: plan))"
        }
        let rest = [ask("/api/tokens"), ask("/api/routes"), ask("/readyz?verbose")]
        return Array((requests + rest).prefix(3))
    }

    private var auditLine: String {
        "sqlite3 \(quoted(plan.audit.path)) 'select at, event, credential, generation from token_events'"
    }

    /// For a shell.
    private func quoted(_ text: String) -> String { "'\(text.replacing("'", with: "'\\''"))'" }

    private func ask(_ path: String) -> String {
        let url = admin.hasPrefix("unix:") ? "http://localhost\(path)" : admin + path
        let socket = admin.hasPrefix("unix:") ? "--unix-socket \(quoted(String(admin.dropFirst(5)))) " : ""
        let file = plan.stateDirectory + "/admin.token"
        let curl = plan.admin.requiresToken ? ShellWord.bearer(from: file) + "curl -H @-" : "curl"
        return "\(curl) \(socket)\(url.contains("?") ? "'\(url)'" : url)"
    }

    /// A path that the sandbox's servers know. The paths of other servers are unknown.
    private func samplePath(of route: RoutePlan) -> String {
        switch route.upstream.description {
        case sandbox?.box: "/2.0/users/me"
        case sandbox?.duke: "/api/me"
        case sandbox?.upstream: "/echo"
        default: "/"
        }
    }
}
