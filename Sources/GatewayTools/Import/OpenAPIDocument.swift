package import GatewayConfiguration
package import GatewayHTTP
import GatewayProxy

/// Takes server and security schemes out of an OpenAPI document (3.x, or Swagger 2.0). Secrets are not in there: each
/// becomes an environment variable that somebody has to set.
package enum OpenAPIDocument {
    /// - Parameter upstream: Counts before the server that the document names.
    package static func services(_ root: ConfigNode, upstream: String? = nil) throws(UnusableInput) -> ImportFindings {
        guard root.value(of: "openapi") != nil || root.value(of: "swagger") != nil else {
            throw UnusableInput("This is not an OpenAPI document: it has neither \"openapi\" nor \"swagger\".")
        }
        guard let server = upstream ?? server(root), let origin = (try? RequestURL(server))?.origin,
            server.contains("://")
        else { throw UnusableInput("The document names no server with scheme and host; add --upstream URL.") }
        let title = root.value(of: "info")?.value(of: "title")?.scalarText ?? origin.host
        let name = ImportedName.made(from: String(title.prefix(30)))
        let variable = name.uppercased().replacing("-", with: "_")
        let prefix = variable.first?.isNumber ?? true ? "API_\(variable)" : variable
        var findings = ImportFindings()
        for scheme in schemes(root) {
            let shown = ShownText.clean(scheme.key, limit: 80)
            guard let login = login(scheme.value, prefix) else {
                findings.note("The security scheme \(shown) has no counterpart here. It was left out.")
                continue
            }
            guard findings.services.isEmpty else {
                findings.note("The security scheme \(shown) is another way to sign in. It was left out.")
                continue
            }
            let base = server.hasSuffix("/") ? String(server.dropLast()) : server
            findings.add(ImportedService(upstream: base, login: login, name: name))
        }
        return findings
    }

    /// The security schemes; those that the document asks for everywhere come first.
    private static func schemes(_ root: ConfigNode) -> [ConfigNode.Entry] {
        let components = root.value(of: "components")?.entries(of: "securitySchemes") ?? []
        let all = components + root.entries(of: "securityDefinitions")
        var wanted: [String] = []
        if case .sequence(let requirements)? = root.value(of: "security")?.content {
            for case .mapping(let entries) in requirements.map(\.content) { wanted += entries.map(\.key) }
        }
        return all.filter { wanted.contains($0.key) } + all.filter { !wanted.contains($0.key) }
    }

    private static func server(_ root: ConfigNode) -> String? {
        if case .sequence(let servers)? = root.value(of: "servers")?.content, let first = servers.first {
            guard var url = first.value(of: "url")?.scalarText else { return nil }
            for variable in first.entries(of: "variables") {
                url = url.replacing("{\(variable.key)}", with: variable.value.value(of: "default")?.scalarText ?? "")
            }
            return url
        }
        guard let host = root.value(of: "host")?.scalarText else { return nil }
        var scheme = "https"
        if case .sequence(let schemes)? = root.value(of: "schemes")?.content, let only = schemes.first?.scalarText,
            !schemes.contains(where: { $0.scalarText == "https" })
        {
            scheme = only
        }
        return "\(scheme)://\(host)\(root.value(of: "basePath")?.scalarText ?? "")"
    }

    private static func login(_ scheme: ConfigNode, _ variable: String) -> ImportedLogin? {
        let token = ImportedSecret.environment("\(variable)_TOKEN")
        switch scheme.value(of: "type")?.scalarText {
        case "http":
            switch scheme.value(of: "scheme")?.scalarText?.lowercased() {
            case "bearer": return .bearer(token)
            case "basic": return basic(variable)
            default: return nil
            }
        case "basic": return basic(variable)
        case "apiKey":
            guard let name = scheme.value(of: "name")?.scalarText else { return nil }
            switch scheme.value(of: "in")?.scalarText {
            case "header": return .header(name: name, scheme: nil, token)
            case "query": return .query(name: name, token)
            default: return nil
            }
        case "oauth2": return clientCredentials(scheme, variable)
        default: return nil
        }
    }

    private static func basic(_ variable: String) -> ImportedLogin {
        .basic(username: .environment("\(variable)_USER"), password: .environment("\(variable)_PASSWORD"))
    }

    private static func clientCredentials(_ scheme: ConfigNode, _ variable: String) -> ImportedLogin? {
        let flow =
            scheme.value(of: "flows")?.value(of: "clientCredentials")
            ?? (scheme.value(of: "flow")?.scalarText == "application" ? scheme : nil)
        guard let flow, let url = flow.value(of: "tokenUrl")?.scalarText else { return nil }
        return .clientCredentials(
            tokenURL: url,
            clientID: .environment("\(variable)_CLIENT_ID"),
            scopes: flow.entries(of: "scopes").map(\.key),
            .environment("\(variable)_CLIENT_SECRET")
        )
    }
}

extension ConfigNode {
    var scalarText: String? {
        guard case .scalar(let scalar) = content, !scalar.isNull else { return nil }
        return scalar.text
    }
}
