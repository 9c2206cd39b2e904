/// What Envoy does with a request of a client.
extension EnvoyExport {
    func writeFilters(_ out: inout ExportText) {
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

    func writeLua(named name: String, _ script: [String], _ out: inout ExportText) {
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
