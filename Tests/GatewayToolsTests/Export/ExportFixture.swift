import GatewayConfiguration
import GatewayEvents
import GatewayHTTP
import GatewayTesting
import GatewayTools

@testable import GatewayApp
@testable import GatewayProxy
@testable import GatewayTokens

/// A plan with engines for tests of exports.
struct ExportFixture {
    struct Strategy: AuthStrategy {
        static let kind = "sample"
        let behavior: AuthBehavior
        init?(from fields: ConfigFields) { nil }
        init(_ behavior: AuthBehavior) { self.behavior = behavior }
    }

    var routes: [RoutePlan] = []
    var credentials: [CredentialPlan] = []
    var cache: Duration?
    var address = ListenerPlan.Address.tcp(host: "127.0.0.1", port: 8191)

    private static let span = SourceSpan(file: 0, line: 1, column: 1)

    /// A route with a credential of its own.
    mutating func add(
        _ name: String,
        upstream: Origin = Origin(scheme: .https, host: "api.box.com", port: 443),
        upstreamPath: String = "",
        path: String? = nil,
        hosts: [String] = [],
        behavior: AuthBehavior = .token(SampleGrant()),
        change: (inout RoutePlan) -> Void = { _ in }
    ) {
        credentials.append(
            CredentialPlan(
                name: "routes.\(name)",
                strategyKind: "sample",
                strategy: Strategy(behavior),
                policy: RenewalPolicy(),
                span: Self.span
            )
        )
        var route = RoutePlan(
            name: name,
            upstream: upstream,
            upstreamPath: upstreamPath,
            matchPath: path ?? "/\(name)",
            matchHosts: hosts,
            credential: credentials.count - 1,
            span: Self.span
        )
        route.authz = ["edge"]
        change(&route)
        routes.append(route)
    }

    func plan(contracts: [EnginePlan.Contract]) -> Plan {
        var plan = Plan(
            stateDirectory: "/state",
            workers: .auto,
            listeners: [],
            admin: AdminPlan(address: .tcp(host: "127.0.0.1", port: 8081)),
            access: AccessPlan(clients: [], allowedOrigins: [], requireClient: .auto),
            audit: AuditPlan(path: "/audit", usage: .none, retention: .seconds(1), onFailure: .block),
            tokens: TokenPlan(store: .memory, path: "/tokens", key: .file(path: "/key")),
            limits: Limits(),
            credentials: credentials,
            routes: routes
        )
        plan.authz = contracts.enumerated().map { index, contract in
            var listener = ListenerPlan(address: address, span: Self.span)
            listener.engine = EnginePlan(
                name: index == 0 ? "edge" : "edge\(index + 1)",
                contract: contract,
                tokens: [Secret("the-engine's-own-token")],
                cache: cache
            )
            return listener
        }
        return plan
    }

    func export(
        _ proxy: ExportedProxy,
        routes: [String] = [],
        engine: String? = nil,
        listen: String = "127.0.0.1:8000",
        contracts: [EnginePlan.Contract]? = nil,
        usesGRPC: Bool = false
    ) throws(ExportProblem) -> String {
        try EngineExport(
            plan(contracts: contracts ?? [proxy.contract]),
            for: proxy,
            routes: routes,
            engine: engine,
            listen: listen,
            usesGRPC: usesGRPC
        ).text()
    }

    /// What the export says is wrong; nil where it is written.
    func problem(
        _ proxy: ExportedProxy,
        routes: [String] = [],
        engine: String? = nil,
        listen: String = "127.0.0.1:8000",
        contracts: [EnginePlan.Contract]? = nil
    ) -> String? {
        do throws(ExportProblem) {
            _ = try export(proxy, routes: routes, engine: engine, listen: listen, contracts: contracts)
            return nil
        } catch {
            return error.description
        }
    }
}
