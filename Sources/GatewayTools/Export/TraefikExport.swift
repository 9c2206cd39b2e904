import GatewayHTTP
import GatewayProxy

/// Writes a dynamic configuration for the file provider of Traefik 3.7.
struct TraefikExport {
    private let export: EngineExport

    init(_ export: EngineExport) { self.export = export }

    func text() throws(ExportProblem) -> String {
        guard case .tcp(let host, let port) = export.gateway else {
            throw ExportProblem(
                "listeners.authz.unix",
                "Traefik asks over TCP only; give the engine \(export.engine.name) an address on 127.0.0.1."
            )
        }
        var out = ExportText(indentation: "  ")
        writeHead(&out)
        out.block("http:", nil) { out in
            out.block("routers:", nil) { out in writeRouters(&out) }
            out.block("middlewares:", nil) { out in
                writeAsk(Origin.hostAndPort(host, port), &out)
                for route in export.routes { writeMiddlewares(route, &out) }
                for entry in export.hosts.flatMap(\.entries) where Self.rewrites(entry) { writeRewrite(entry, &out) }
            }
            out.block("services:", nil) { out in
                for route in export.routes { writeService(route, &out) }
            }
            if export.routes.contains(where: \.isTLS) {
                out.block("serversTransports:", nil) { out in
                    for route in export.routes where route.isTLS { writeTransport(route, &out) }
                }
            }
        }
        return out.text
    }

    private func writeHead(_ out: inout ExportText) {
        out.comment("Traefik asks AuthGateway (engine \(export.engine.name)) for the credential of each request.")
        let address = Origin.hostAndPort(export.listen.host, export.listen.port)
        export.writeStart(
            "traefik --entryPoints.authgateway.address=\(address)"
                + " --entryPoints.authgateway.forwardedHeaders.notAppendXForwardedFor=true"
                + " --providers.file.filename=authgateway-traefik.yaml",
            &out
        )
        out.comment(
            "Traefik cannot tell the gateway that the upstream rejected a credential. It asks again and sends the request"
        )
        out.comment(
            "again, which helps where the credential has been renewed meanwhile. A revoked one stays in use until it expires,"
        )
        out.comment("or until `authgateway token refresh`.")
        out.comment("While the gateway is down, clients get 500 and nothing is forwarded.")
        out.comment("Traefik passes on the gateway's refusals with their explanation.")
        out.comment("Traefik removes dot segments and empty segments from paths before it asks.")
    }

    private func writeRouters(_ out: inout ExportText) {
        let all = export.hosts.flatMap { host in host.entries.map { (host, $0) } }
        for (index, (host, entry)) in all.enumerated() {
            var rule: [String] = []
            if let suffix = host.wildcardSuffix {
                rule.append("HostRegexp(`^.+\(ExportSyntax.pattern(suffix))$`)")
            } else if let name = host.name {
                rule.append("Host(`\(name)`)")
            }
            rule.append(
                entry.prefix.isEmpty ? "PathPrefix(`/`)" : "PathRegexp(`^\(ExportSyntax.pattern(entry.prefix))(/|$)`)"
            )
            var chain = entry.route.replayed.isEmpty ? [] : ["again"]
            chain += ["ask_\(Self.word(entry.route))", "ask"]
            if Self.rewrites(entry) { chain.append("path_\(entry.identifier)") }
            chain.append("clean_\(Self.word(entry.route))")
            out.block("\(entry.identifier):", nil) { out in
                out.add("entryPoints: [authgateway]")
                out.add("rule: \(Self.quoted(rule.joined(separator: " && ")))")
                out.add("priority: \(all.count - index)")
                out.add("middlewares: [\(chain.joined(separator: ", "))]")
                out.add("service: \(Self.word(entry.route))")
            }
        }
    }

    private func writeAsk(_ address: String, _ out: inout ExportText) {
        out.add(
            "again: {retry: {attempts: 2, status: [\(statuses)], maxRequestBodyBytes: \(export.limits.replayBodyBytes),"
                + " retryNonIdempotentMethod: true, disableRetryOnNetworkError: true}}"
        )
        out.block("ask:", nil) { out in
            out.block("forwardAuth:", nil) { out in
                out.add("address: \"http://\(address)/\"")
                out.add("trustForwardHeader: false")
                let names = Set(export.routes.flatMap(\.fields)).sorted().map(Self.quoted)
                out.add("authResponseHeaders: [\(names.joined(separator: ", "))]")
            }
        }
    }

    private var statuses: String {
        Set(export.routes.flatMap(\.replayed)).sorted().map { "\"\($0)\"" }.joined(separator: ", ")
    }

    private func writeMiddlewares(_ route: ExportedRoute, _ out: inout ExportText) {
        out.block("ask_\(Self.word(route)):", nil) { out in
            out.block("headers:", nil) { out in
                out.block("customRequestHeaders:", nil) { out in
                    out.add(#"X-Gw-Generation: """#)
                    out.add(#"X-Gw-Rejected-Generation: """#)
                    out.add("X-Gw-Route: \(Self.quoted(route.name))")
                    let token = #"'{{ env "\#(EngineExport.tokenVariable)" }}'"#
                    out.add("X-Gw-Engine-Token: \(export.sendsToken ? token : "\"\"")")
                }
            }
        }
        out.block("clean_\(Self.word(route)):", nil) { out in
            out.block("headers:", nil) { out in
                out.block("customRequestHeaders:", nil) { out in
                    for name in route.removed + ["X-Replaced-Path"] { out.add("\(Self.quoted(name)): \"\"") }
                }
                if route.dropsCookies { out.add("customResponseHeaders: {Set-Cookie: \"\"}") }
            }
        }
    }

    private static func rewrites(_ entry: ExportedHost.Entry) -> Bool {
        entry.isStripped && !entry.prefix.isEmpty || !entry.route.upstreamPath.isEmpty
    }

    private func writeRewrite(_ entry: ExportedHost.Entry, _ out: inout ExportText) {
        let prefix = entry.isStripped ? ExportSyntax.pattern(entry.prefix) : ""
        // In a replacement, `$$` is a dollar sign.
        let base = entry.route.upstreamPath.replacing("$", with: "$$")
        let (pattern, replacement) =
            base.isEmpty ? ("^\(prefix)/?(.*)$", "/$1") : ("^\(prefix)(.*)$", "\(base)${1}")
        out.add(
            "path_\(entry.identifier): {replacePathRegex: {regex: \(Self.quoted(pattern)),"
                + " replacement: \(Self.quoted(replacement))}}"
        )
    }

    private func writeService(_ route: ExportedRoute, _ out: inout ExportText) {
        out.block("\(Self.word(route)):", nil) { out in
            out.block("loadBalancer:", nil) { out in
                out.add("servers: [{url: \(Self.quoted("\(route.upstream.scheme.rawValue)://\(route.authority)"))}]")
                out.add("passHostHeader: false")
                if route.isTLS { out.add("serversTransport: \(Self.word(route))") }
            }
        }
    }

    private func writeTransport(_ route: ExportedRoute, _ out: inout ExportText) {
        out.block("\(Self.word(route)):", nil) { out in
            out.add("serverName: \(Self.quoted(route.serverName))")
            if let path = route.caPath { out.add("rootCAs: [\(Self.quoted(path))]") }
            out.add(
                "forwardingTimeouts: {dialTimeout: \(export.connectTimeout)s,"
                    + " responseHeaderTimeout: \(route.responseTimeout)s}"
            )
        }
    }

    // MARK: Syntax

    /// A key, of which Traefik makes names without regard to case.
    private static func word(_ route: ExportedRoute) -> String { "route_\(route.identifier)" }

    /// A YAML string in which the file provider's template finds nothing to do.
    private static func quoted(_ text: String) -> String { JSONString.quoted(text) }
}
