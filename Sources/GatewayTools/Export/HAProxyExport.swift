import GatewayHTTP
import GatewayProxy

/// Writes a configuration of HAProxy, 2.6 and later, and the Lua script that it loads: HAProxy has no directive that asks another
/// server about a request.
package struct HAProxyExport {
    private let export: EngineExport

    init(_ export: EngineExport) { self.export = export }

    func text() throws(ExportProblem) -> String {
        var out = ExportText(indentation: "  ")
        writeHead(&out)
        out.block("global", nil) { out in
            out.add("lua-load-per-thread authgateway.lua")
        }
        out.block("defaults", nil) { out in
            out.add("mode http")
            out.add("timeout connect \(export.connectTimeout)s")
            out.add("timeout client \(export.routes.map(\.silence).reduce(60, max))s")
            out.add("timeout http-request \(ExportSyntax.seconds(export.limits.headerTimeout))s")
            out.add("option http-keep-alive")
        }
        try writeFrontend(&out)
        for route in export.routes { try writeBackend(route, &out) }
        return out.text
    }

    private func writeHead(_ out: inout ExportText) {
        out.comment(
            "HAProxy asks AuthGateway (engine \(export.engine.name)) for the credential of each request, with a script:"
        )
        out.comment("  authgateway export haproxy --script > authgateway.lua")
        export.writeStart("haproxy -f authgateway-haproxy.cfg", &out)
        out.comment(
            "HAProxy cannot send a request again with another credential. It tells the gateway which one the upstream"
        )
        out.comment("rejected: this client gets the upstream's refusal, and the next request has a renewed credential.")
        out.comment("While the gateway is down, or where the script fails, clients get 503 and nothing is forwarded.")
        out.comment("HAProxy passes on the gateway's refusals with their explanation.")
        out.comment("Names of upstreams are resolved when HAProxy starts.")
    }

    // MARK: Frontend

    private func writeFrontend(_ out: inout ExportText) throws(ExportProblem) {
        try out.block("frontend authgateway_clients", nil) { (out) throws(ExportProblem) in
            out.add("bind \(Origin.hostAndPort(export.listen.host, export.listen.port))")
            out.add("http-request set-var(txn.gw_host) req.hdr(host),host_only,lower")
            for host in export.hosts {
                for entry in host.entries {
                    out.add("http-request set-var(txn.gw_entry) str(\(entry.identifier)) \(condition(entry, host))")
                }
            }
            out.add("http-request return status 404 unless { var(txn.gw_entry) -m found }")
            for entry in export.hosts.flatMap(\.entries) {
                out.add("http-request set-var(txn.gw_route) str(\(entry.route.name)) \(isEntry(entry))")
            }
            for route in export.routes {
                let fields = route.fields.joined(separator: ",")
                out.add("http-request lua.authgateway_ask \(gateway) \(askTimeout) \(fields) \(isRoute(route))")
            }
            out.add("http-request return status 503 unless { var(txn.gw_granted) -m bool }")
            for entry in export.hosts.flatMap(\.entries) { try writeRewrite(entry, &out) }
            for route in export.routes where !route.replayed.isEmpty {
                let statuses = route.replayed.map(String.init).joined(separator: " ")
                out.add(
                    "http-response lua.authgateway_rejected \(gateway) \(askTimeout) if { status \(statuses) }"
                        + " { var(txn.gw_route) -m str \(route.name) }"
                )
            }
            for route in export.routes { out.add("use_backend \(Self.backend(of: route)) \(isRoute(route))") }
        }
    }

    private func condition(_ entry: ExportedHost.Entry, _ host: ExportedHost) -> String {
        var tests = ["!{ var(txn.gw_entry) -m found }"]
        if let suffix = host.wildcardSuffix {
            tests.append("{ var(txn.gw_host) -m end \(Self.quoted(suffix)) }")
        } else if let name = host.name {
            tests.append("{ var(txn.gw_host) -m str \(Self.quoted(name)) }")
        }
        guard !entry.prefix.isEmpty else { return "if \(tests.joined(separator: " "))" }
        let common = tests.joined(separator: " ")
        let below = "\(common) { path -m beg \(Self.quoted(entry.prefix + "/")) }"
        return "if \(below) || \(common) { path -m str \(Self.quoted(entry.prefix)) }"
    }

    private func isEntry(_ entry: ExportedHost.Entry) -> String {
        "if { var(txn.gw_entry) -m str \(entry.identifier) }"
    }
    private func isRoute(_ route: ExportedRoute) -> String { "if { var(txn.gw_route) -m str \(route.name) }" }

    private func writeRewrite(_ entry: ExportedHost.Entry, _ out: inout ExportText) throws(ExportProblem) {
        let place = "routes.\(entry.route.name).upstream"
        let base = try ExportSyntax.checked(entry.route.upstreamPath, refusing: "%\\", at: place, for: .haproxy)
        let prefix = entry.isStripped ? ExportSyntax.pattern(entry.prefix) : ""
        guard !prefix.isEmpty || !base.isEmpty else { return }
        let (pattern, replacement) = base.isEmpty ? ("^\(prefix)/?(.*)$", "/\\1") : ("^\(prefix)(.*)$", "\(base)\\1")
        out.add("http-request replace-path \(Self.quoted(pattern)) \(Self.quoted(replacement)) \(isEntry(entry))")
    }

    // MARK: Backends

    private func writeBackend(_ route: ExportedRoute, _ out: inout ExportText) throws(ExportProblem) {
        out.block("backend \(Self.backend(of: route))", nil) { out in
            for name in route.removed { out.add("http-request del-header \(name)") }
            for (index, field) in route.fields.enumerated() {
                out.add("http-request set-header \(field) %[var(txn.gw_field_\(index + 1))]")
            }
            out.add("http-request set-header Host \(route.authority)")
            if route.dropsCookies { out.add("http-response del-header Set-Cookie") }
            out.add("http-reuse safe")
            out.add("timeout server \(route.silence)s")
            var server = "server upstream \(route.address)"
            if route.isTLS {
                server += " ssl verify required ca-file \(route.caPath.map(Self.quoted) ?? "@system-ca")"
                server += " sni str(\(route.serverName)) verifyhost \(route.serverName)"
            }
            out.add(server)
        }
    }

    // MARK: Syntax

    private var gateway: String {
        switch export.gateway {
        case .tcp(let host, let port): "http://\(Origin.hostAndPort(host, port))/ -"
        case .unix(let path): "http://authgateway/ \(Self.quoted("unix@" + path))"
        }
    }

    private var askTimeout: String { "\(export.askTimeout * 1000)" }

    private static func backend(of route: ExportedRoute) -> String { "authgateway_route_\(route.name)" }

    /// Within single quotes, nothing has a meaning.
    private static func quoted(_ text: String) -> String { "'\(text.replacing("'", with: #"'\''"#))'" }
}

extension HAProxyExport {
    /// The Lua script, which is the same for every configuration: what differs stands in the arguments of its actions.
    package static let script = """
        -- HAProxy loads this for AuthGateway: it asks the gateway for the credential of a request.
        local token = os.getenv("\(EngineExport.tokenVariable)")
        -- Of the connection between the client and HAProxy, or of HAProxy's own question.
        local private = {
          ["connection"] = true, ["content-length"] = true, ["expect"] = true, ["host"] = true, ["keep-alive"] = true,
          ["proxy-connection"] = true, ["te"] = true, ["trailer"] = true, ["transfer-encoding"] = true, ["upgrade"] = true,
        }

        local function copy(fields)
          local asked = {}
          for name, values in pairs(fields) do
            if not private[name] and name:sub(1, 5) ~= "x-gw-" and name:sub(1, 12) ~= "x-forwarded-" then
              asked[name] = {}
              for index = 0, #values do table.insert(asked[name], values[index]) end
            end
          end
          return asked
        end

        local function first(fields, name)
          local values = fields and fields[name]
          return values and values[0]
        end

        local function ask(url, destination, timeout, asked)
          asked["x-gw-engine-token"] = token and {token} or nil
          local request = {url = url, headers = asked, timeout = tonumber(timeout)}
          if destination ~= "-" then request.dst = destination end
          return core.httpclient():get(request)
        end

        core.register_action("authgateway_ask", {"http-req"}, function(txn, url, destination, timeout, names)
          local fields = txn.http:req_get_headers()
          local asked = copy(fields)
          local hosts = fields["host"]
          if hosts == nil or hosts[1] ~= nil then return end
          asked["x-forwarded-method"] = {txn.sf:method()}
          asked["x-forwarded-uri"] = {txn.sf:pathq()}
          asked["x-forwarded-host"] = {hosts[0]}
          asked["x-forwarded-proto"] = {txn.sf:ssl_fc() == 1 and "https" or "http"}
          asked["x-gw-route"] = {txn:get_var("txn.gw_route")}
          local answer = ask(url, destination, timeout, asked)
          if answer == nil or answer.status == nil or answer.status < 200 then return end
          if answer.status ~= 200 then
            local reply = txn:reply({status = answer.status, body = answer.body})
            for _, name in ipairs({"content-type", "www-authenticate", "retry-after"}) do
              local value = first(answer.headers, name)
              if value then reply:add_header(name, value) end
            end
            txn:done(reply)
          end
          local index = 0
          for name in names:gmatch("[^,]+") do
            local value = first(answer.headers, name:lower())
            if value == nil then return end
            index = index + 1
            txn:set_var("txn.gw_field_" .. index, value)
          end
          local generation = first(answer.headers, "x-gw-generation")
          if generation then
            asked["x-gw-rejected-generation"] = {generation}
            txn:set_priv(asked)
          end
          txn:set_var("txn.gw_granted", true)
        end, 4)

        core.register_action("authgateway_rejected", {"http-res"}, function(txn, url, destination, timeout)
          local asked = txn:get_priv()
          if asked then ask(url, destination, timeout, asked) end
        end, 3)

        """
}
