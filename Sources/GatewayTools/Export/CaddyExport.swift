import GatewayHTTP
import GatewayProxy

/// Writes a Caddyfile for Caddy 2.6 and later.
///
/// It spells out what `forward_auth` stands for: that directive keeps the client's own field where the answer has none
/// (GHSA-7r4p-vjf4-gxv4). Here the fields of the answer go into variables, and from there into the request.
struct CaddyExport {
    private let export: EngineExport

    init(_ export: EngineExport) { self.export = export }

    func text() throws(ExportProblem) -> String {
        var out = ExportText(indentation: "\t")
        writeHead(&out)
        out.block("{") { out in
            out.add("admin off")
            out.add("auto_https off")
        }
        try out.block("http://:\(export.listen.port) {") { (out) throws(ExportProblem) in
            out.add("bind \(export.listen.host)")
            try out.block("route {") { (out) throws(ExportProblem) in
                for host in export.hosts {
                    for entry in host.entries { try writeEntry(entry, of: host, &out) }
                }
                out.add("respond 404")
            }
        }
        return out.text
    }

    private func writeHead(_ out: inout ExportText) {
        out.comment("Caddy asks AuthGateway (engine \(export.engine.name)) for the credential of each request.")
        export.writeStart("caddy run --adapter caddyfile --config authgateway.caddyfile", &out)
        out.comment(
            "A credential that the upstream rejects is renewed. GET, HEAD and OPTIONS without a body are sent again;"
        )
        out.comment(
            "of other requests the client gets the upstream's answer, because Caddy does not keep their bodies."
        )
        out.comment("While the gateway is down, clients get 502 and nothing is forwarded.")
        out.comment("Caddy passes on the gateway's refusals with their explanation.")
    }

    private func writeEntry(_ entry: ExportedHost.Entry, of host: ExportedHost, _ out: inout ExportText)
        throws(ExportProblem)
    {
        let route = entry.route
        let matcher = "@\(entry.identifier)"
        out.block("\(matcher) {") { out in
            if let name = host.name { out.add("host \(name)") }
            let pattern = ExportSyntax.pattern(entry.prefix)
            // As the client sent it: Caddy compares paths without regard to case, and decoded.
            let rest = entry.prefix.isEmpty ? "/.*" : "([/?].*)?"
            out.add("vars_regexp {http.request.orig_uri} ^\(pattern)\(rest)$")
        }
        try out.block("handle \(matcher) {") { (out) throws(ExportProblem) in
            try out.block("route {") { (out) throws(ExportProblem) in
                out.add("request_header -X-Gw-*")
                out.add("request_header -X-Original-*")
                out.add("request_header -X-Forwarded-*")
                writeAsk(route, isRenewal: false, &out)
                if let rewrite = try Self.rewrite(entry) { out.add(rewrite) }
                writeForwarding(route, &out) { out in
                    guard !route.replayed.isEmpty else { return }
                    out.add("@rejected status \(route.replayed.map(String.init).joined(separator: " "))")
                    out.block("handle_response @rejected {") { out in
                        out.block("@repeatable {") { out in
                            out.add("method GET HEAD OPTIONS")
                            out.add("header !Content-Length")
                        }
                        out.block("route @repeatable {") { out in
                            writeAsk(route, isRenewal: true, &out)
                            writeForwarding(route, &out) { _ in }
                        }
                        out.add("copy_response")
                    }
                }
            }
        }
    }

    private func writeAsk(_ route: ExportedRoute, isRenewal: Bool, _ out: inout ExportText) {
        let gateway =
            switch export.gateway {
            case .tcp(let host, let port): Origin.hostAndPort(host, port)
            case .unix(let path): "unix/\(path)"
            }
        out.block("reverse_proxy \(gateway) {") { out in
            out.add("method GET")
            out.add("rewrite /?")
            out.add("header_up X-Forwarded-Method {http.request.orig_method}")
            out.add("header_up X-Forwarded-Uri {http.request.orig_uri}")
            out.add("header_up X-Forwarded-Host {http.request.hostport}")
            out.add("header_up X-Forwarded-Proto {http.request.scheme}")
            out.add("header_up X-Gw-Route \(route.name)")
            if export.sendsToken { out.add("header_up X-Gw-Engine-Token {env.\(EngineExport.tokenVariable)}") }
            if isRenewal { out.add("header_up X-Gw-Rejected-Generation {http.vars.gw_generation}") }
            out.add("header_up -Content-Length")
            out.block("transport http {") { out in
                out.add("compression off")
                out.add("dial_timeout 2s")
                out.add("response_header_timeout \(export.askTimeout)s")
            }
            out.add("@granted status 200")
            out.block("handle_response @granted {") { out in
                out.block("vars {") { out in
                    if !route.replayed.isEmpty {
                        out.add("gw_generation {http.reverse_proxy.header.X-Gw-Generation}")
                    }
                    for (index, field) in route.fields.enumerated() {
                        out.add("gw_field_\(index + 1) {http.reverse_proxy.header.\(Self.canonical(field))}")
                    }
                }
            }
        }
    }

    private func writeForwarding(
        _ route: ExportedRoute,
        _ out: inout ExportText,
        more: (inout ExportText) -> Void
    ) {
        out.block("reverse_proxy \(route.upstream.scheme.rawValue)://\(route.address) {") { out in
            out.add("header_up Host \(route.authority)")
            for name in route.removed { out.add("header_up -\(name)") }
            for (index, field) in route.fields.enumerated() {
                out.add("header_up \(field) {http.vars.gw_field_\(index + 1)}")
            }
            if route.dropsCookies { out.add("header_down -Set-Cookie") }
            out.block("transport http {") { out in
                out.add("compression off")
                out.add("dial_timeout \(export.connectTimeout)s")
                out.add("response_header_timeout \(route.responseTimeout)s")
                if route.isTLS { out.add("tls_server_name \(route.serverName)") }
                // Newer versions prefer another spelling, which those before 2.8 do not know.
                if route.isTLS, let path = route.caPath { out.add("tls_trusted_ca_certs \(ExportSyntax.quoted(path))") }
            }
            more(&out)
        }
    }

    /// What makes the upstream's path of the client's; nil where it stays.
    private static func rewrite(_ entry: ExportedHost.Entry) throws(ExportProblem) -> String? {
        let base = try ExportSyntax.checked(
            entry.route.upstreamPath,
            refusing: "$`\"",
            at: "routes.\(entry.route.name).upstream",
            for: .caddy
        )
        let prefix = entry.isStripped ? ExportSyntax.pattern(entry.prefix) : ""
        guard !prefix.isEmpty || !base.isEmpty else { return nil }
        return base.isEmpty ? "uri path_regexp ^\(prefix)/? /" : "uri path_regexp ^\(prefix) \(base)"
    }

    /// The name of a field as Go spells it, which is how Caddy keeps it.
    private static func canonical(_ field: String) -> String {
        field.lowercased().split(separator: "-", omittingEmptySubsequences: false)
            .map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined(separator: "-")
    }
}
