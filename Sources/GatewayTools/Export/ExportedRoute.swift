import GatewayApp
import GatewayHTTP
import GatewayProxy
import GatewayTokens

/// What another proxy has to know of a route.
struct ExportedRoute: Hashable, Sendable {
    let name: String
    let upstream: Origin
    /// Stands before the path of each request; empty, or without a slash at its end.
    let upstreamPath: String
    /// Sent as SNI and verified.
    let serverName: String
    /// PEM of the authorities that the upstream's certificate must come from; nil trusts the system's.
    let caPath: String?
    /// The fields that the gateway's answer brings, as they are written.
    let fields: [String]
    /// Fields in which a request names its subject to the gateway.
    let subjects: [String]
    /// What the client sends under these names goes no further; none of ``fields``.
    let removed: [String]
    /// Statuses after which the gateway is asked once more; empty where its credential has no generations.
    let replayed: [Int]
    let dropsCookies: Bool
    /// How many seconds a response may take, from the end of the request to the head of the response.
    let responseTimeout: Int
    /// How many seconds without data are allowed, for proxies with one limit before and within a response.
    let silence: Int

    /// `api.example.com`, or with a port that is not the scheme's own.
    var authority: String { upstream.authority }

    /// With the port.
    var address: String { Origin.hostAndPort(upstream.host, upstream.port) }

    /// What is asked of the upstream where the client names the route's own path alone.
    var rootPath: String { upstreamPath.isEmpty ? "/" : upstreamPath }

    /// A word for names in the proxy's configuration. No other route has it, also where case does not count.
    let identifier: String

    var isTLS: Bool { upstream.scheme == .https }
}

extension ExportedRoute {
    /// - Throws: Where the route does more than a proxy with the gateway's fields can do.
    init(_ plan: RoutePlan, number: Int, of whole: Plan) throws(ExportProblem) {
        let place = "routes.\(plan.name)"
        try Self.refuseWhatIsNotExported(plan, place)
        guard let index = plan.credential else {
            throw ExportProblem("\(place).auth", "there is no credential to hand out; add one, or leave the route out.")
        }
        let credential = whole.credentials[index]
        let injection = try CredentialFields(of: credential, at: "\(place).auth")
        for name in injection.names + plan.headers.set.map(\.name) + plan.headers.remove where !Self.isPlain(name) {
            throw ExportProblem(
                place,
                "the field name \(name) cannot be exported; use letters, digits, \"-\" and \"_\"."
            )
        }
        if let path = plan.tls.caPath, !FieldSyntax.isValue(path) || path.contains(where: { "${`".contains($0) }) {
            throw ExportProblem(
                "\(place).tls.ca",
                "the path \(JSONString.quoted(path)) cannot be exported; use another one."
            )
        }
        name = plan.name
        identifier =
            "\(number)_" + plan.name.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? String($0) : "_" }.joined()
        upstream = plan.upstream
        upstreamPath = plan.upstreamPath
        serverName = plan.tls.serverName ?? plan.upstream.host
        caPath = plan.tls.caPath
        let set = plan.headers.set.map(\.name).filter { name in
            !injection.names.contains { $0.lowercased() == name.lowercased() }
        }
        fields = injection.names + (plan.asUser.map { [$0.field.name] } ?? []) + set
        subjects = injection.alsoRemoved
        replayed = injection.hasGenerations ? credential.policy.retryOn.sorted() : []
        dropsCookies = plan.cookies == .drop
        responseTimeout = ExportSyntax.seconds(whole.limits.responseTimeout(of: plan.timeouts))
        silence = max(responseTimeout, ExportSyntax.seconds(whole.limits.responsePause(of: plan.timeouts)))
        let taken = Set(fields.map { $0.lowercased() })
        // Some servers read `X_Api_Key` as `X-Api-Key`.
        let twins = fields.map { $0.replacing("-", with: "_") }
        let all =
            RemovedFields.always + injection.alsoRemoved + plan.headers.remove + (dropsCookies ? ["Cookie"] : [])
            + twins
        var seen = taken
        removed = all.filter { seen.insert($0.lowercased()).inserted }
    }

    /// Other characters mean something to one proxy or another.
    private static func isPlain(_ name: String) -> Bool {
        name.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x5F: true
            default: false
            }
        }
    }

    private static func refuseWhatIsNotExported(_ plan: RoutePlan, _ place: String) throws(ExportProblem) {
        if !plan.tls.pins.isEmpty {
            throw ExportProblem("\(place).tls.pins", "cannot be exported; leave the route out of the export.")
        }
        if plan.tls.certificatePath != nil {
            throw ExportProblem(
                "\(place).tls.certificate",
                "the gateway's own certificate is not exported; leave the route out of the export."
            )
        }
        if plan.upstreamProtocol == .http2 {
            throw ExportProblem("\(place).protocol", "http2 cannot be exported; use auto or http1.")
        }
        if let proxy = plan.proxy {
            throw ExportProblem(
                "\(place).proxy",
                "the upstream is reached through \(proxy), which is not exported; leave the route out of the export."
            )
        }
        if plan.allowsConnectionAuth {
            throw ExportProblem(
                "\(place).connection_auth",
                "a proxy shares upstream connections among clients; leave the route out of the export."
            )
        }
    }
}

/// What clients may not say to an upstream, whatever the route.
private enum RemovedFields {
    static let original = ["X-Original-Method", "X-Original-URI", "X-Original-Host", "X-Original-Proto"]

    static let always =
        EnginePlan.ownFields + original + [
            "Authorization", "Proxy-Authorization", "X-Forwarded-Method", "X-Forwarded-Uri",
        ]
        + ForwardedPolicy.names.map(spelled)

    /// `X-Forwarded-For` of `x-forwarded-for`.
    private static func spelled(_ name: String) -> String {
        name.split(separator: "-").map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined(separator: "-")
    }
}

/// The names of the fields that a credential adds to requests. Its values are not looked at.
private struct CredentialFields: Sendable {
    let names: [String]
    /// Fields that clients may not send beside the credential, or that name the subject of a request to the gateway alone.
    let alsoRemoved: [String]
    /// Whether a rejected credential can be renewed.
    let hasGenerations: Bool

    init(of credential: CredentialPlan, at place: String) throws(ExportProblem) {
        let injection: Injection
        var alsoRemoved = type(of: credential.strategy).ownedFields
        func unknown() -> ExportProblem {
            ExportProblem(
                place,
                "\(credential.strategyKind) adds no field that is known before the upstream answers; leave the route out."
            )
        }
        switch credential.strategy.behavior {
        case .fixed(let fixed):
            injection = fixed
            hasGenerations = false
        case .token where credential.strategy.behavior.signs, .signed:
            throw ExportProblem(
                place,
                "\(credential.strategyKind) signs each request as it is sent; another proxy cannot be handed a signature in"
                    + " advance. Leave the route out."
            )
        case .token(let grant):
            injection = grant.injection(of: AuthBehavior.exampleToken)
            hasGenerations = true
        case .tokens(let grants):
            guard let field = grants.naming.field else { throw unknown() }
            // Its form is the same for all subjects.
            injection = grants.grant(for: "example").injection(of: AuthBehavior.exampleToken)
            alsoRemoved.append(field)
            hasGenerations = true
        case .none, .onChallenge: throw unknown()
        }
        guard !injection.hasSecretTarget else {
            throw ExportProblem(
                place,
                "\(credential.strategyKind) puts its credential into the URL; a proxy is handed header fields only."
            )
        }
        names = injection.fields.map(\.name)
        self.alsoRemoved = alsoRemoved
    }
}

/// The requests for one host, and which route each of them finds, as ``RouteTable`` finds it.
struct ExportedHost: Hashable, Sendable {
    struct Entry: Hashable, Sendable {
        /// Whole segments; empty takes every path.
        let prefix: String
        /// Whether the prefix is removed before the request is forwarded.
        let isStripped: Bool
        let route: ExportedRoute
        /// A word for names in the proxy's configuration; no other entry has it.
        let identifier: String
    }

    /// Lower case, exact or `*.example.com`; nil takes every host.
    let name: String?
    /// The first one that fits counts.
    let entries: [Entry]

    var wildcardSuffix: String? { name.flatMap { $0.hasPrefix("*.") ? String($0.dropFirst()) : nil } }
}

extension ExportedHost {
    /// Exact hosts before wildcards, these by length, and at the end what takes every host.
    static func all(_ routes: [(plan: RoutePlan, route: ExportedRoute)], of whole: Plan) -> [ExportedHost] {
        var numbering = Numbering()
        let anyHost = routes.filter { !$0.plan.matchesAll }
            .map { Draft(prefix: $0.plan.matchPath == "/" ? "" : $0.plan.matchPath, isStripped: true, route: $0.route) }
        let names = Set(routes.flatMap(\.plan.matchHosts))
        let sorted = names.sorted { one, other in
            let (first, second) = (one.hasPrefix("*."), other.hasPrefix("*."))
            if first != second { return !first }
            return first && one.count != other.count ? one.count > other.count : one < other
        }
        var hosts: [ExportedHost] = []
        for name in sorted {
            // Routes that are not exported count too: where several name a host, the path is removed.
            let owners = whole.routes.filter { $0.matchHosts.contains(name) }
            let isShared = owners.count > 1 || owners.contains { $0.matchesAll }
            let own = routes.filter { $0.plan.matchHosts.contains(name) }
                .map { plan, route in
                    let prefix = !isShared || plan.matchPath == "/" ? "" : plan.matchPath
                    return Draft(prefix: prefix, isStripped: isShared, route: route)
                }
            hosts.append(ExportedHost(name: name, entries: numbering.entries(own, behind: anyHost)))
        }
        if !anyHost.isEmpty { hosts.append(ExportedHost(name: nil, entries: numbering.entries(anyHost, behind: []))) }
        return hosts
    }

    private struct Draft {
        let prefix: String
        let isStripped: Bool
        let route: ExportedRoute
    }

    private struct Numbering {
        private var count = 0

        mutating func entries(_ own: [Draft], behind rest: [Draft]) -> [Entry] {
            var result: [Entry] = []
            for draft in longestFirst(own) + longestFirst(rest) {
                guard !result.contains(where: { $0.prefix.isEmpty || $0.prefix == draft.prefix }) else { continue }
                count += 1
                let word = String(draft.route.name.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" })
                result.append(
                    Entry(
                        prefix: draft.prefix,
                        isStripped: draft.isStripped,
                        route: draft.route,
                        identifier: "\(word)_\(count)"
                    )
                )
            }
            return result
        }

        private func longestFirst(_ drafts: [Draft]) -> [Draft] { drafts.sorted { $0.prefix.count > $1.prefix.count } }
    }
}
