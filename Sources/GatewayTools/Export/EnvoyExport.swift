import GatewayHTTP
import GatewayProxy

/// Writes a configuration of Envoy, 1.36 and later: `ext_authz` over HTTP, and a Lua filter in the cluster that names the rejected
/// generation when Envoy retries (https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/lua_filter).
struct EnvoyExport {
    /// Where Debian and most distributions have the authorities that the system trusts, in one file.
    static let systemTrust = "/etc/ssl/certs/ca-certificates.crt"
    /// What Envoy holds of a request so that it can send it again.
    private static let heldBytes = 1 << 20
    private static let types = "type.googleapis.com/envoy.extensions"

    private let export: EngineExport

    init(_ export: EngineExport) { self.export = export }

    func text() throws(ExportProblem) -> String {
        var out = ExportText(indentation: "  ")
        writeHead(&out)
        out.block("static_resources:", nil) { out in
            out.add("listeners:")
            writeListener(&out)
            out.add("clusters:")
            writeGatewayCluster(&out)
            for route in export.routes { writeCluster(route, &out) }
        }
        return out.text
    }

    private func writeHead(_ out: inout ExportText) {
        out.comment("Envoy asks AuthGateway (engine \(export.engine.name)) for the credential of each request.")
        export.writeStart("envoy -c authgateway-envoy.yaml", &out)
        out.comment(
            "A credential that the upstream rejects is renewed, and the request is sent again, with a body of up to"
        )
        out.comment("\(ConfigUnits.text(bytes: heldBytes)). The answer to a longer request is passed on.")
        out.comment("While the gateway is down, clients get 503 and nothing is forwarded (failure_mode_allow: false).")
        out.comment(
            "Envoy passes on 401 and 403 of the gateway with its explanation. Other refusals become 503 without it."
        )
        out.comment("Upgrades (WebSocket) are not passed on.")
    }

    private var heldBytes: Int { max(Self.heldBytes, export.limits.replayBodyBytes) }

    // MARK: Listener

    private func writeListener(_ out: inout ExportText) {
        out.block("- name: clients", nil) { out in
            out.add("address: \(Self.socket(export.listen.host, export.listen.port))")
            out.add("filter_chains:")
            out.block("- filters:", nil) { out in
                out.block("- name: envoy.filters.network.http_connection_manager", nil) { out in
                    out.block("typed_config:", nil) { out in
                        out.add(
                            type("filters.network.http_connection_manager.v3.HttpConnectionManager")
                        )
                        out.add("stat_prefix: clients")
                        out.add("generate_request_id: false")
                        out.comment("Some servers read `_` in a name as `-`.")
                        out.add("common_http_protocol_options: {headers_with_underscores_action: DROP_HEADER}")
                        writeRoutes(&out)
                        writeFilters(&out)
                    }
                }
            }
        }
    }

    private func writeRoutes(_ out: inout ExportText) {
        out.block("route_config:", nil) { out in
            out.add("ignore_port_in_host_matching: true")
            out.add("virtual_hosts:")
            for (index, host) in export.hosts.enumerated() {
                out.block("- name: host_\(index + 1)", nil) { out in
                    out.add("domains: [\(Self.quoted(host.name ?? "*"))]")
                    out.add("routes:")
                    for entry in host.entries { writeRoutes(of: entry, &out) }
                }
            }
        }
    }

    private func writeRoutes(of entry: ExportedHost.Entry, _ out: inout ExportText) {
        let base = entry.route.upstreamPath
        let prefix = entry.isStripped ? entry.prefix : ""
        if prefix.isEmpty {
            writeRoute(entry, match: "prefix: \"/\"", rewrite: base.isEmpty ? nil : "\(base)/", &out)
        } else {
            writeRoute(entry, match: "prefix: \(Self.quoted("\(prefix)/"))", rewrite: "\(base)/", &out)
            writeRoute(entry, match: "path: \(Self.quoted(prefix))", rewrite: entry.route.rootPath, &out)
        }
    }

    private func writeRoute(
        _ entry: ExportedHost.Entry,
        match: String,
        rewrite: String?,
        _ out: inout ExportText
    ) {
        let route = entry.route
        out.block("- match: {\(match)}", nil) { out in
            out.add("metadata: {filter_metadata: {envoy.filters.http.lua: {route: \(Self.quoted(route.name))}}}")
            out.block("route:", nil) { out in
                out.add("cluster: \(Self.cluster(of: route))")
                out.add("host_rewrite_literal: \(Self.quoted(route.authority))")
                if let rewrite { out.add("prefix_rewrite: \(Self.quoted(rewrite))") }
                out.add("timeout: 0s")
                out.add("idle_timeout: \(route.silence)s")
                if !route.replayed.isEmpty {
                    let codes = route.replayed.map(String.init).joined(separator: ", ")
                    out.add(
                        "retry_policy: {retry_on: retriable-status-codes, retriable_status_codes: [\(codes)], num_retries: 1}"
                    )
                }
            }
            if !route.replayed.isEmpty { out.add("request_body_buffer_limit: \(heldBytes)") }
            let removed = (route.removed + ["X-Envoy-Original-Path"]).map { Self.quoted($0.lowercased()) }
            out.add("request_headers_to_remove: [\(removed.joined(separator: ", "))]")
            if route.dropsCookies { out.add("response_headers_to_remove: [set-cookie]") }
        }
    }

    // MARK: Clusters

    private func writeGatewayCluster(_ out: inout ExportText) {
        out.block("- name: authgateway", nil) { out in
            out.add("connect_timeout: 2s")
            switch export.gateway {
            case .unix(let path):
                writeEndpoint("{pipe: {path: \(Self.quoted(path))}}", of: "authgateway", isName: false, &out)
            case .tcp(let host, let port):
                writeEndpoint(
                    Self.socket(host, port),
                    of: "authgateway",
                    isName: Origin(scheme: .http, host: host, port: port).isName,
                    &out
                )
            }
            if export.usesGRPC { writeProtocol("http2_protocol_options", &out) { _ in } }
        }
    }

    private func writeCluster(_ route: ExportedRoute, _ out: inout ExportText) {
        let name = Self.cluster(of: route)
        out.block("- name: \(name)", nil) { out in
            out.add("connect_timeout: \(export.connectTimeout)s")
            out.comment("Unless told otherwise, Envoy retries three requests at a time.")
            let (connections, pending) = (export.limits.connectionsPerUpstream, export.limits.pendingPerUpstream)
            let all = connections + pending
            out.add(
                "circuit_breakers: {thresholds: [{max_connections: \(connections), max_pending_requests: \(pending),"
                    + " max_requests: \(all), max_retries: \(all)}]}"
            )
            writeEndpoint(
                Self.socket(route.upstream.host, route.upstream.port),
                of: name,
                isName: route.upstream.isName,
                &out
            )
            if route.isTLS { writeTLS(route, &out) }
            if !route.replayed.isEmpty { writeRenewal(route, &out) }
        }
    }

    private func writeEndpoint(_ address: String, of name: String, isName: Bool, _ out: inout ExportText) {
        out.add("type: \(isName ? "STRICT_DNS" : "STATIC")")
        if isName { out.add("dns_lookup_family: V4_PREFERRED") }
        out.block("load_assignment:", nil) { out in
            out.add("cluster_name: \(name)")
            out.add("endpoints: [{lb_endpoints: [{endpoint: {address: \(address)}}]}]")
        }
    }

    private func writeTLS(_ route: ExportedRoute, _ out: inout ExportText) {
        let server = Origin(scheme: .https, host: route.serverName, port: route.upstream.port)
        out.block("transport_socket:", nil) { out in
            out.add("name: envoy.transport_sockets.tls")
            out.block("typed_config:", nil) { out in
                out.add(type("transport_sockets.tls.v3.UpstreamTlsContext"))
                if server.isName { out.add("sni: \(Self.quoted(route.serverName))") }
                out.block("common_tls_context:", nil) { out in
                    out.block("validation_context:", nil) { out in
                        out.add("trusted_ca: {filename: \(Self.quoted(route.caPath ?? Self.systemTrust))}")
                        let kind = server.isName ? "DNS" : "IP_ADDRESS"
                        let exact = "{exact: \(Self.quoted(route.serverName))}"
                        out.add("match_typed_subject_alt_names: [{san_type: \(kind), matcher: \(exact)}]")
                    }
                }
            }
        }
    }

    private func writeRenewal(_ route: ExportedRoute, _ out: inout ExportText) {
        writeProtocol("http_protocol_options", &out) { out in
            out.add("http_filters:")
            let script = EnvoyScript.renewal(
                fields: route.fields,
                pathPrefix: export.engine.pathPrefix,
                tokenVariable: export.sendsToken ? EngineExport.tokenVariable : nil,
                timeout: export.askTimeout
            )
            writeLua(named: "authgateway.renewal", script, &out)
            out.block("- name: envoy.filters.http.upstream_codec", nil) { out in
                out.add("typed_config: {\(type("filters.http.upstream_codec.v3.UpstreamCodec"))}")
            }
        }
    }

    private func writeProtocol(_ options: String, _ out: inout ExportText, more: (inout ExportText) -> Void) {
        out.block("typed_extension_protocol_options:", nil) { out in
            out.block("envoy.extensions.upstreams.http.v3.HttpProtocolOptions:", nil) { out in
                out.add(type("upstreams.http.v3.HttpProtocolOptions"))
                out.add("explicit_http_config: {\(options): {}}")
                more(&out)
            }
        }
    }

    // MARK: Syntax

    func type(_ name: String) -> String { "\"@type\": \(Self.types).\(name)" }

    private static func cluster(of route: ExportedRoute) -> String { "authgateway_route_\(route.name)" }

    private static func socket(_ host: String, _ port: Int) -> String {
        "{socket_address: {address: \(quoted(host)), port_value: \(port)}}"
    }

    /// A JSON string is one of YAML, too.
    static func quoted(_ text: String) -> String { JSONString.quoted(text) }
}

extension Origin {
    /// Whether the host is a name that has to be resolved.
    var isName: Bool { IPAddress(host) == nil }
}

/// What Envoy does with a request of a client.
extension EnvoyExport {
    private func writeFilters(_ out: inout ExportText) {
        out.add("http_filters:")
        writeLua(named: "authgateway.request", EnvoyScript.request, &out)
        out.block("- name: envoy.filters.http.ext_authz", nil) { out in
            out.block("typed_config:", nil) { out in
                out.add(type("filters.http.ext_authz.v3.ExtAuthz"))
                out.add("failure_mode_allow: false")
                out.add("status_on_error: {code: ServiceUnavailable}")
                out.comment("The gateway judges what it would judge on a listener of its own.")
                out.add(#"allowed_headers: {patterns: [{safe_regex: {regex: ".*"}}]}"#)
                out.add(
                    "disallowed_headers: {patterns: [{exact: transfer-encoding}, {exact: expect}, {exact: te}, {exact: upgrade}]}"
                )
                if export.usesGRPC { writeCall(&out) } else { writeService(&out) }
            }
        }
        writeLua(named: "authgateway.answer", EnvoyScript.answer, &out)
        out.block("- name: envoy.filters.http.router", nil) { out in
            out.add(
                "typed_config: {\(type("filters.http.router.v3.Router")), suppress_envoy_headers: true}"
            )
        }
    }

    private func writeLua(named name: String, _ script: [String], _ out: inout ExportText) {
        out.block("- name: \(name)", nil) { out in
            out.block("typed_config:", nil) { out in
                out.add(type("filters.http.lua.v3.Lua"))
                out.block("default_source_code:", nil) { out in
                    out.block("inline_string: |", nil) { out in out.add(script) }
                }
            }
        }
    }

    private func writeService(_ out: inout ExportText) {
        out.block("http_service:", nil) { out in
            if !export.engine.pathPrefix.isEmpty {
                out.add("path_prefix: \(Self.quoted(export.engine.pathPrefix))")
            }
            out.add("server_uri: {uri: \"http://authgateway\", cluster: authgateway, timeout: \(export.askTimeout)s}")
            if export.sendsToken { out.add("authorization_request: {headers_to_add: [\(token)]}") }
            let names = Set(export.routes.flatMap(\.fields).map { $0.lowercased() }).sorted()
            let patterns = (names + ["x-gw-generation"]).map { "{exact: \(Self.quoted($0))}" }.joined(separator: ", ")
            out.add("authorization_response: {allowed_upstream_headers: {patterns: [\(patterns)]}}")
        }
    }

    private func writeCall(_ out: inout ExportText) {
        out.add("transport_api_version: V3")
        out.block("grpc_service:", nil) { out in
            out.add("envoy_grpc: {cluster_name: authgateway}")
            out.add("timeout: \(export.askTimeout)s")
            if export.sendsToken { out.add("initial_metadata: [\(token)]") }
        }
    }

    private var token: String {
        "{key: x-gw-engine-token, value: \"%ENVIRONMENT(\(EngineExport.tokenVariable))%\"}"
    }
}

/// The scripts of Envoy's Lua filters. They pass on what one attempt has to tell the next in the request's dynamic metadata.
private enum EnvoyScript {
    /// Before Envoy asks: keeps what the client sent, for a second question, and removes what only the gateway may say.
    static let request = lines(
        """
        function envoy_on_request(handle)
          local fields = handle:headers()
          local asked, own = {}, {}
          for name, value in pairs(fields) do
            if name:sub(1, 5) == "x-gw-" or name:sub(1, 8) == "x-envoy-" then
              own[#own + 1] = name
            elseif name ~= "content-length" and name ~= "transfer-encoding" and name ~= "expect" and name ~= "te"
                and name ~= "upgrade" then
              asked[name] = value
            end
          end
          for _, name in ipairs(own) do fields:remove(name) end
          asked["x-gw-route"] = handle:metadata():get("route")
          fields:add("x-gw-route", asked["x-gw-route"] or "")
          handle:streamInfo():dynamicMetadata():set("authgateway", "asked", asked)
        end
        """
    )

    /// After the gateway has answered.
    static let answer = lines(
        """
        function envoy_on_request(handle)
          local fields = handle:headers()
          local metadata = handle:streamInfo():dynamicMetadata()
          metadata:set("authgateway", "generation", fields:get("x-gw-generation") or "")
          fields:remove("x-gw-generation")
        end
        """
    )

    /// Runs for each attempt, and asks again before the second one.
    ///
    /// - Parameters:
    ///   - fields: The fields that the answer brings.
    ///   - timeout: In seconds.
    static func renewal(fields: [String], pathPrefix: String, tokenVariable: String?, timeout: Int) -> [String] {
        let names = fields.map { JSONString.quoted($0.lowercased()) }.joined(separator: ", ")
        let path =
            pathPrefix.isEmpty ? "" : "  asked[\":path\"] = \(JSONString.quoted(pathPrefix)) .. asked[\":path\"]\n"
        let token = tokenVariable.map { "  asked[\"x-gw-engine-token\"] = os.getenv(\(JSONString.quoted($0)))\n" } ?? ""
        return lines(
            """
            function envoy_on_request(handle)
              local metadata = handle:streamInfo():dynamicMetadata()
              local known = metadata:get("authgateway")
              if known == nil or known["attempted"] == nil then
                metadata:set("authgateway", "attempted", "yes")
                return
              end
              if known["generation"] == nil or known["generation"] == "" then return end
              local asked = {}
              for name, value in pairs(known["asked"]) do asked[name] = value end
            \(path)\(token)  asked["x-gw-rejected-generation"] = known["generation"]
              local answer = handle:httpCall("authgateway", asked, "", \(timeout * 1000))
              if answer == nil or answer[":status"] ~= "200" then
                handle:respond({[":status"] = "503"}, "")
                return
              end
              for _, name in ipairs({\(names)}) do
                handle:headers():replace(name, answer[name] or "")
              end
            end
            """
        )
    }

    private static func lines(_ text: String) -> [String] {
        text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    }
}
