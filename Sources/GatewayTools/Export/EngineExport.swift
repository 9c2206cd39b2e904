package import GatewayApp
import GatewayHTTP
package import GatewayProxy

/// What a proxy needs so that it asks the gateway which fields its requests need: the input of the text for each proxy.
package struct EngineExport: Sendable {
    /// Where the proxy asks.
    enum Gateway: Hashable, Sendable {
        case tcp(host: String, port: Int)
        case unix(path: String)
    }

    let proxy: ExportedProxy
    let engine: EnginePlan
    let gateway: Gateway
    /// Where clients reach the proxy.
    let listen: (host: String, port: Int)
    let hosts: [ExportedHost]
    /// Each once, in the order of the configuration.
    let routes: [ExportedRoute]
    let limits: Limits
    /// Envoy asks by gRPC.
    let usesGRPC: Bool

    /// Where the proxy finds the engine's token, which no configuration holds.
    static let tokenVariable = "AUTHGATEWAY_ENGINE_TOKEN"

    var sendsToken: Bool { !engine.tokens.isEmpty }
    /// How long an answer of the gateway may take: it waits for a token itself.
    var askTimeout: Int { ExportSyntax.seconds(limits.credentialTimeout) + 2 }
    var connectTimeout: Int { ExportSyntax.seconds(limits.connectTimeout) }

    /// - Parameters:
    ///   - names: The names of the routes; empty takes those that have opted in.
    ///   - engine: The engine's name; nil where one listener of ``Plan/authz`` fits.
    ///   - listen: Where clients shall reach the proxy, as `host:port`.
    ///   - usesGRPC: Whether Envoy asks by gRPC.
    package init(
        _ plan: Plan,
        for proxy: ExportedProxy,
        routes names: [String],
        engine name: String?,
        listen: String,
        usesGRPC: Bool = false
    ) throws(ExportProblem) {
        self.usesGRPC = usesGRPC
        let (engine, listener) = try Self.engine(of: plan, named: name, for: proxy)
        self.proxy = proxy
        self.engine = engine
        gateway = try Self.gateway(listener, engine)
        self.listen = try Self.address(listen)
        limits = plan.limits
        let chosen = try Self.choose(names, of: plan, for: engine)
        var pairs: [(plan: RoutePlan, route: ExportedRoute)] = []
        for (index, route) in chosen.enumerated() {
            pairs.append((route, try ExportedRoute(route, number: index + 1, of: plan)))
        }
        routes = pairs.map(\.route)
        hosts = ExportedHost.all(pairs, of: plan)
    }

    /// The whole configuration.
    package func text() throws(ExportProblem) -> String {
        switch proxy {
        case .envoy: try EnvoyExport(self).text()
        case .nginx: try NginxExport(self).text()
        case .traefik: try TraefikExport(self).text()
        case .caddy: try CaddyExport(self).text()
        case .haproxy: try HAProxyExport(self).text()
        }
    }

    /// How the proxy is started, and where it finds the engine's token.
    func writeStart(_ command: String, _ out: inout ExportText) {
        out.comment("Start it with:")
        out.comment("  \(command)")
        if sendsToken {
            out.comment("The engine's token is in the variable \(Self.tokenVariable) of \(proxy.title)'s environment.")
        }
        out.comment("")
    }

    // MARK: Choices

    private static func engine(of plan: Plan, named name: String?, for proxy: ExportedProxy)
        throws(ExportProblem) -> (EnginePlan, ListenerPlan)
    {
        let all = plan.authz.compactMap { listener in listener.engine.map { ($0, listener) } }
        let contract = proxy.contract.rawValue
        guard let name else {
            let fitting = all.filter { $0.0.contract == proxy.contract }
            if fitting.count == 1, let only = fitting.first { return only }
            if fitting.isEmpty {
                throw ExportProblem(
                    "listeners.authz",
                    "\(proxy.title) needs a listener with `contract: \(contract)`, and there is none; add one."
                )
            }
            let names = fitting.map(\.0.name).joined(separator: ", ")
            throw ExportProblem(
                "listeners.authz",
                "several engines have `contract: \(contract)`: \(names). Choose one with --engine."
            )
        }
        guard let found = all.first(where: { $0.0.name == name }) else {
            let hint = Suggestion.hint(for: name, in: all.map(\.0.name))
            throw ExportProblem("listeners.authz", "no engine is named \(name.singleLine(limit: 64))\(hint).")
        }
        guard found.0.contract == proxy.contract else {
            throw ExportProblem(
                "listeners.authz",
                "the engine \(name) has `contract: \(found.0.contract.rawValue)`; \(proxy.title) needs `\(contract)`."
            )
        }
        return found
    }

    private static func gateway(_ listener: ListenerPlan, _ engine: EnginePlan) throws(ExportProblem) -> Gateway {
        guard listener.tls == nil else {
            throw ExportProblem(
                "listeners.authz.tls",
                "the listener of \(engine.name) speaks TLS, which is not exported. Run a gateway beside the proxy,"
                    + " with a listener on 127.0.0.1 or a unix socket."
            )
        }
        switch listener.address {
        case .unix(let path, _): return .unix(path: path)
        case .tcp(let host, let port):
            guard port != 0 else {
                throw ExportProblem("listeners.authz.address", "the port 0 is any free port; name a port.")
            }
            return .tcp(host: host, port: port)
        }
    }

    private static func address(_ text: String) throws(ExportProblem) -> (host: String, port: Int) {
        guard text.last(where: { $0 == ":" || $0 == "]" }) == ":", let origin = Origin(scheme: .http, authority: text)
        else {
            throw ExportProblem("--listen", "expected an address and a port, for example 127.0.0.1:8000.")
        }
        return (origin.host, origin.port)
    }

    private static func choose(_ names: [String], of plan: Plan, for engine: EnginePlan) throws(ExportProblem)
        -> [RoutePlan]
    {
        let open = plan.routes.filter { $0.authz.contains(engine.name) }
        guard !names.isEmpty else {
            guard !open.isEmpty else {
                throw ExportProblem(
                    "routes",
                    "no route hands its credential to \(engine.name); add `authz: [\(engine.name)]` to a route."
                )
            }
            return open
        }
        for name in names where !open.contains(where: { $0.name == name }) {
            guard plan.routes.contains(where: { $0.name == name }) else {
                let hint = Suggestion.hint(for: name, in: plan.routes.map(\.name))
                throw ExportProblem("routes", "no route is named \(name.singleLine(limit: 64))\(hint).")
            }
            throw ExportProblem(
                "routes.\(name).authz",
                "does not name the engine \(engine.name); add `authz: [\(engine.name)]` to the route."
            )
        }
        return open.filter { names.contains($0.name) }
    }
}

/// A proxy for which `authgateway export` writes a configuration.
package enum ExportedProxy: String, CaseIterable, Sendable {
    case envoy
    case nginx
    case traefik
    case caddy
    case haproxy

    package var title: String {
        switch self {
        case .envoy: "Envoy"
        case .nginx: "nginx"
        case .traefik: "Traefik"
        case .caddy: "Caddy"
        case .haproxy: "HAProxy"
        }
    }

    /// How its configuration asks the gateway.
    package var contract: EnginePlan.Contract {
        switch self {
        case .envoy: .envoy
        case .nginx: .nginx
        case .traefik, .caddy, .haproxy: .forwardAuth
        }
    }
}

/// Lines of a configuration with their indentation.
struct ExportText {
    private var lines: [String] = []
    private var depth = 0
    private let indentation: String

    init(indentation: String) { self.indentation = indentation }

    var text: String { lines.map { $0 + "\n" }.joined() }

    mutating func add(_ line: String) {
        lines.append(line.isEmpty ? "" : String(repeating: indentation, count: depth) + line)
    }

    mutating func add(_ more: [String]) { for line in more { add(line) } }

    mutating func comment(_ text: String) { add("# \(text)") }

    /// `head`, the body one step deeper, and `end`, where there is one.
    mutating func block<Failure: Error>(
        _ head: String,
        _ end: String? = "}",
        body: (inout ExportText) throws(Failure) -> Void
    ) throws(Failure) {
        add(head)
        depth += 1
        try body(&self)
        depth -= 1
        if let end { add(end) }
    }
}

/// Spellings that several proxies share.
enum ExportSyntax {
    /// Matches the text alone (PCRE and RE2). Paths and hosts of the configuration have few other characters.
    static func pattern(_ text: String) -> String {
        text.map { character in
            switch character {
            case ".", "$", "(", ")", "+", "*", "?", "|", "[", "{": "[\(character)]"
            default: String(character)
            }
        }.joined()
    }

    /// The duration in seconds, rounded up; at least 1.
    static func seconds(_ duration: Duration) -> Int { max(1, Int((duration.wholeMilliseconds + 999) / 1000)) }

    /// A string in double quotation marks, in which backslashes are doubled.
    static func quoted(_ text: String) -> String {
        "\"\(text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\""))\""
    }

    /// Text of the configuration as part of a double-quoted string, in which nothing is replaced.
    static func checked(_ text: String, refusing characters: String, at place: String, for proxy: ExportedProxy)
        throws(ExportProblem) -> String
    {
        for character in text.unicodeScalars {
            if characters.unicodeScalars.contains(character) || !(0x21...0x7E).contains(character.value) {
                throw ExportProblem(
                    place,
                    "has the character \(JSONString.quoted(String(character))), which \(proxy.title) cannot take here; change it, or leave the route out."
                )
            }
        }
        return text
    }
}

/// Why no configuration can be written for another proxy: where in the gateway's configuration, what, and what to do.
package struct ExportProblem: Error, Hashable, Sendable, CustomStringConvertible {
    /// The key, for example `routes.box.protocol`.
    package let place: String
    package let message: String

    package init(_ place: String, _ message: String) {
        self.place = place
        self.message = message
    }

    package var description: String { "\(place): \(message)" }
}
