import GatewayHTTP
import GatewayProxy

/// Writes what belongs into the `http` block of nginx, 1.22 and later.
///
/// A named location is reached by `error_page` with the request's method and its content, which nginx has kept: so a request is sent
/// again after the upstream has refused its credential
/// (https://nginx.org/en/docs/http/ngx_http_core_module.html#error_page).
struct NginxExport {
    private let export: EngineExport
    /// The fields of the client that the gateway's answer can depend on, where answers are kept.
    ///
    /// The gateway and the upstreams get them from the variables that the cache key has. Several fields with one name are several
    /// fields to the gateway, and one value to nginx: the first before 1.23, all of them since.
    private let keyed: [String]

    private static let ask = "/_authgateway/ask"
    private static let renew = "/_authgateway/renew"

    init(_ export: EngineExport) {
        self.export = export
        let judged =
            OriginalRequest.judgedFields + export.routes.flatMap(\.fields) + export.routes.flatMap(\.subjects)
        var seen: Set<String> = []
        keyed = export.engine.cache == nil ? [] : judged.filter { seen.insert($0.lowercased()).inserted }
    }

    func text() throws(ExportProblem) -> String {
        var out = ExportText(indentation: "    ")
        writeHead(&out)
        writeCache(&out)
        writeUpstreams(&out)
        for entry in export.hosts.flatMap(\.entries) { try writeTarget(of: entry, &out) }
        for host in export.hosts { writeServer(host, &out) }
        if !export.hosts.contains(where: { $0.name == nil }) {
            out.add("")
            out.block("server {") { out in
                out.add("listen \(listen) default_server;")
                out.add("return 404;")
            }
        }
        return out.text
    }

    private func writeHead(_ out: inout ExportText) {
        out.comment("nginx asks AuthGateway (engine \(export.engine.name)) for the credential of each request.")
        out.comment("This belongs into the http block, for example as /etc/nginx/conf.d/authgateway.conf.")
        if export.sendsToken {
            out.comment("")
            out.comment("The engine's token is in a file of its own, beside nginx.conf. This makes it:")
            out.comment(
                #"  (umask 077; printf 'proxy_set_header X-Gw-Engine-Token "%s";\n' "$TOKEN" > authgateway-token.conf)"#
            )
        }
        out.comment("")
        out.comment(
            "A credential that the upstream rejects is renewed, and the request is sent again, with its body."
        )
        out.comment("nginx keeps bodies that exceed client_body_buffer_size in files below client_body_temp_path.")
        out.comment("While the gateway is down, clients get 500 and nothing is forwarded.")
        out.comment(
            "nginx passes on 401 and 403 of the gateway, without its explanation. Any other refusal becomes 500."
        )
        out.comment(
            "Names of upstreams are resolved when nginx starts and when it reloads. Upgrades (WebSocket) are not passed on."
        )
        out.add("")
    }

    private func writeCache(_ out: inout ExportText) {
        guard let cache = export.engine.cache else { return }
        out.comment("Answers hold credentials, and the keys hold client tokens: keep this folder in memory (tmpfs).")
        out.add(
            "proxy_cache_path /dev/shm/authgateway-\(export.engine.name) keys_zone=authgateway:1m max_size=16m"
                + " inactive=\(ExportSyntax.seconds(cache))s use_temp_path=off;"
        )
        out.add("")
    }

    private func writeUpstreams(_ out: inout ExportText) {
        out.block("upstream authgateway {") { out in
            switch export.gateway {
            case .tcp(let host, let port): out.add("server \(Origin.hostAndPort(host, port));")
            case .unix(let path): out.add("server \(ExportSyntax.quoted("unix:" + path));")
            }
            out.add("keepalive 16;")
        }
        for route in export.routes {
            out.block("upstream \(Self.upstream(of: route)) {") { out in
                out.add("server \(route.address);")
                out.add("keepalive 16;")
            }
        }
        out.add("")
    }

    /// The target as the client sent it, since the gateway judges that and nginx would decode it.
    private func writeTarget(of entry: ExportedHost.Entry, _ out: inout ExportText) throws(ExportProblem) {
        let route = entry.route
        let place = "routes.\(route.name)"
        let prefix = try ExportSyntax.checked(entry.prefix, refusing: "\"\\", at: "\(place).match.path", for: .nginx)
        let base = try ExportSyntax.checked(route.upstreamPath, refusing: "\"\\$", at: "\(place).upstream", for: .nginx)
        let pattern = entry.isStripped ? ExportSyntax.pattern(prefix) : ""
        let rest = "gw_rest_\(entry.identifier)"
        let query = "gw_query_\(entry.identifier)"
        out.block("map $request_uri $gw_target_\(entry.identifier) {") { out in
            out.add(#"default "";"#)
            out.add(#""~^\#(pattern)(?<\#(rest)>/.*)$" "\#(base)$\#(rest)";"#)
            if !pattern.isEmpty {
                let root = base.isEmpty ? "/" : base
                out.add(#""~^\#(pattern)(?<\#(query)>[?].*)?$" "\#(root)$\#(query)";"#)
            }
        }
    }

    // MARK: Servers

    private var listen: String { Origin.hostAndPort(export.listen.host, export.listen.port) }

    private func writeServer(_ host: ExportedHost, _ out: inout ExportText) {
        out.add("")
        out.block("server {") { out in
            out.add("listen \(listen)\(host.name == nil ? " default_server" : "");")
            if let name = host.name { out.add("server_name \(ExportSyntax.quoted(name));") }
            out.add("client_max_body_size \(export.limits.requestBodyBytes ?? 0);")
            if !keyed.isEmpty {
                out.comment("To a variable of the cache key, X_Name and X-Name are the same field.")
                out.add("underscores_in_headers off;")
            }
            for entry in host.entries { writeLocations(entry, &out) }
            if !host.entries.contains(where: \.prefix.isEmpty) { out.add("location / { return 404; }") }
            writeAsk(Self.ask, isRenewal: false, &out)
            if export.routes.contains(where: { !$0.replayed.isEmpty }) { writeAsk(Self.renew, isRenewal: true, &out) }
        }
    }

    private func writeLocations(_ entry: ExportedHost.Entry, _ out: inout ExportText) {
        let route = entry.route
        let target = "$gw_target_\(entry.identifier)"
        let renewal = "@authgateway_renew_\(entry.identifier)"
        let place = entry.prefix.isEmpty ? "/" : #"~ "^\#(ExportSyntax.pattern(entry.prefix))(?:/|$)""#
        out.block("location \(place) {") { out in
            out.add("if (\(target) = \"\") { return 400; }")
            out.add(#"set $gw_route "\#(route.name)";"#)
            out.add("auth_request \(Self.ask);")
            if !route.replayed.isEmpty { out.add("auth_request_set $gw_generation $upstream_http_x_gw_generation;") }
            writeForwarding(route, target, &out)
            guard !route.replayed.isEmpty else { return }
            out.add("proxy_intercept_errors on;")
            out.add("error_page \(route.replayed.map(String.init).joined(separator: " ")) = \(renewal);")
        }
        guard !route.replayed.isEmpty else { return }
        out.block("location \(renewal) {") { out in
            out.add("auth_request \(Self.renew);")
            writeForwarding(route, target, &out)
        }
    }

    private func writeForwarding(_ route: ExportedRoute, _ target: String, _ out: inout ExportText) {
        for (index, field) in route.fields.enumerated() {
            out.add("auth_request_set $gw_field_\(index + 1) $upstream_http_\(Self.variable(field));")
        }
        out.add("proxy_pass \(route.upstream.scheme.rawValue)://\(Self.upstream(of: route))\(target);")
        out.add("proxy_http_version 1.1;")
        out.add(#"proxy_set_header Connection "";"#)
        out.add("proxy_set_header Host \(ExportSyntax.quoted(route.authority));")
        for (index, field) in route.fields.enumerated() {
            out.add("proxy_set_header \(field) $gw_field_\(index + 1);")
        }
        for name in route.removed { out.add(#"proxy_set_header \#(name) "";"#) }
        let own = Set((route.fields + route.removed).map { $0.lowercased() })
        writeKeyed(keyed.filter { OriginalRequest.judgedFields.contains($0) && !own.contains($0.lowercased()) }, &out)
        out.comment("An upstream could name a location of the gateway's answers.")
        out.add(
            "proxy_ignore_headers X-Accel-Redirect X-Accel-Expires X-Accel-Limit-Rate X-Accel-Buffering X-Accel-Charset;"
        )
        if route.dropsCookies { out.add("proxy_hide_header Set-Cookie;") }
        out.add("proxy_connect_timeout \(export.connectTimeout)s;")
        out.add("proxy_read_timeout \(route.silence)s;")
        guard route.isTLS else { return }
        out.add("proxy_ssl_server_name on;")
        out.add("proxy_ssl_name \(ExportSyntax.quoted(route.serverName));")
        out.add("proxy_ssl_verify on;")
        out.add("proxy_ssl_verify_depth 5;")
        out.add("proxy_ssl_trusted_certificate \(ExportSyntax.quoted(route.caPath ?? EnvoyExport.systemTrust));")
    }

    private func writeAsk(_ place: String, isRenewal: Bool, _ out: inout ExportText) {
        out.block("location = \(place) {") { out in
            out.add("internal;")
            out.add("proxy_pass http://authgateway/;")
            out.add("proxy_http_version 1.1;")
            out.add(#"proxy_set_header Connection "";"#)
            out.add("proxy_pass_request_body off;")
            out.add(#"proxy_set_header Content-Length "";"#)
            out.add("proxy_set_header X-Original-Method $request_method;")
            out.add("proxy_set_header X-Original-URI $request_uri;")
            out.add("proxy_set_header X-Original-Host $http_host;")
            out.add("proxy_set_header X-Original-Proto $scheme;")
            out.add("proxy_set_header X-Gw-Route $gw_route;")
            out.add(#"proxy_set_header X-Gw-Generation "";"#)
            out.add("proxy_set_header X-Gw-Rejected-Generation \(isRenewal ? "$gw_generation" : #""""#);")
            if !keyed.isEmpty {
                out.comment("The gateway judges what the cache key has, and nothing else.")
                out.add("proxy_pass_request_headers off;")
                writeKeyed(keyed, &out)
            }
            out.add(
                export.sendsToken ? "include authgateway-token.conf;" : #"proxy_set_header X-Gw-Engine-Token "";"#
            )
            out.add("proxy_connect_timeout 2s;")
            out.add("proxy_read_timeout \(export.askTimeout)s;")
            guard export.engine.cache != nil, !isRenewal else { return }
            out.comment(
                "A client chooses the parts. None of them can contain the line feed that separates them."
            )
            out.add("proxy_cache authgateway;")
            out.add(#"proxy_cache_key "\#(cacheKey)";"#)
            out.add("proxy_cache_lock on;")
            out.comment("Cache-Control is for others; X-Accel-Expires says how long the answer may be used.")
            out.add("proxy_ignore_headers Cache-Control Expires Set-Cookie Vary;")
        }
    }

    /// All that the gateway's answer can depend on. A line feed can be in none of the parts, so it separates them.
    private var cacheKey: String {
        let fields = keyed.map { "http_\(Self.variable($0))" }
        var seen: Set<String> = []
        return (["gw_route", "scheme", "request_method", "http_host", "request_uri"] + fields)
            .filter { seen.insert($0).inserted }.map { "$\($0)" }.joined(separator: #"\n"#)
    }

    private func writeKeyed(_ names: [String], _ out: inout ExportText) {
        for name in names { out.add("proxy_set_header \(name) $http_\(Self.variable(name));") }
    }

    // MARK: Syntax

    private static func upstream(of route: ExportedRoute) -> String { "authgateway_route_\(route.name)" }

    private static func variable(_ field: String) -> String {
        String(field.lowercased().map { $0 == "-" ? "_" : $0 })
    }
}
