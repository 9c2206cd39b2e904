package import GatewayConfiguration
package import GatewayHTTP

/// Takes the logins out of an Envoy configuration: the filter `credential_injector` with its secrets, and the clusters
/// that the routes beside it lead to.
package enum EnvoyConfiguration {
    package static func services(_ root: ConfigNode) throws(UnusableInput) -> ImportFindings {
        guard root.value(of: "static_resources") != nil else {
            throw UnusableInput("This is not an Envoy configuration with static_resources.")
        }
        var reader = Reader(root)
        reader.visit(root)
        if reader.findings.services.isEmpty, reader.findings.notes.isEmpty {
            reader.findings.note("There is no filter credential_injector in it.")
        }
        return reader.findings
    }

    private struct Reader {
        var findings = ImportFindings()
        private let clusters: [String: ConfigNode]
        private let secrets: [String: ConfigNode]

        init(_ root: ConfigNode) {
            let resources = root.value(of: "static_resources")
            clusters = Self.named(resources?.value(of: "clusters"))
            secrets = Self.named(resources?.value(of: "secrets"))
        }

        private static func named(_ list: ConfigNode?) -> [String: ConfigNode] {
            let nodes = list?.elements ?? []
            let pairs = nodes.compactMap { node in node.value(of: "name")?.scalarText.map { ($0, node) } }
            return Dictionary(pairs) { first, _ in first }
        }

        /// A connection manager has its filters and its routes side by side.
        mutating func visit(_ node: ConfigNode) {
            for filter in node.value(of: "http_filters")?.elements ?? [] {
                guard let injector = Self.injector(filter) else { continue }
                add(injector, to: node)
            }
            switch node.content {
            case .scalar: break
            case .sequence(let elements): for element in elements { visit(element) }
            case .mapping(let entries): for entry in entries { visit(entry.value) }
            }
        }

        private static func injector(_ filter: ConfigNode) -> ConfigNode? {
            let settings = filter.value(of: "typed_config")
            let type = settings?.value(of: "@type")?.scalarText ?? ""
            return type.hasSuffix(".CredentialInjector") ? settings?.value(of: "credential") : nil
        }

        private mutating func add(_ credential: ConfigNode, to manager: ConfigNode) {
            guard let settings = credential.value(of: "typed_config"), let login = login(settings) else {
                return findings.note("A credential_injector has no secret in static_resources. It was left out.")
            }
            let targets = Self.clusterNames(manager.value(of: "route_config"))
            let upstreams = targets.compactMap { clusters[$0].flatMap(Self.upstream) }
            if upstreams.isEmpty {
                findings.note("A credential_injector leads to no cluster with an address. It was left out.")
            }
            for upstream in upstreams { findings.add(ImportedService(upstream: upstream, login: login)) }
        }

        private func login(_ settings: ConfigNode) -> ImportedLogin? {
            let type = settings.value(of: "@type")?.scalarText ?? ""
            if type.hasSuffix(".OAuth2") { return clientCredentials(settings) }
            guard let secret = secret(settings.value(of: "credential")) else { return nil }
            let name = settings.value(of: "header")?.scalarText ?? "Authorization"
            // The secret is the whole value of the field: only in clear can it be seen what it is.
            if case .clear(let value) = secret {
                return value.withValue { ImportedLogin.reading(field: name, value: $0) }
                    ?? .header(name: name, scheme: nil, secret)
            }
            return .header(name: name, scheme: nil, secret)
        }

        private func clientCredentials(_ settings: ConfigNode) -> ImportedLogin? {
            guard let url = settings.value(of: "token_endpoint")?.value(of: "uri")?.scalarText,
                let client = settings.value(of: "client_credentials"),
                let identifier = client.value(of: "client_id")?.scalarText,
                let secret = secret(client.value(of: "client_secret"))
            else { return nil }
            let scopes = settings.value(of: "scopes")?.elements.compactMap(\.scalarText) ?? []
            return .clientCredentials(tokenURL: url, clientID: .text(identifier), scopes: scopes, secret)
        }

        private func secret(_ reference: ConfigNode?) -> ImportedSecret? {
            let named = reference?.value(of: "name")?.scalarText.flatMap { secrets[$0] }
            guard let source = named?.value(of: "generic_secret")?.value(of: "secret") else { return nil }
            if let text = source.value(of: "inline_string")?.scalarText { return .clear(Secret(text)) }
            if let path = source.value(of: "filename")?.scalarText { return .file(path) }
            return source.value(of: "environment_variable")?.scalarText.map(ImportedSecret.environment)
        }

        private static func clusterNames(_ routes: ConfigNode?) -> [String] {
            guard let routes else { return [] }
            switch routes.content {
            case .scalar: return []
            case .sequence(let elements): return elements.flatMap(clusterNames)
            case .mapping(let entries):
                return entries.flatMap { entry -> [String] in
                    if entry.key == "cluster", let name = entry.value.scalarText { return [name] }
                    return clusterNames(entry.value)
                }
            }
        }

        private static func upstream(_ cluster: ConfigNode) -> String? {
            guard let place = socketAddress(cluster), let host = place.value(of: "address")?.scalarText,
                let port = place.value(of: "port_value")?.scalarText.flatMap({ Int($0) })
            else { return nil }
            let scheme = cluster.value(of: "transport_socket") == nil ? Origin.Scheme.http : .https
            return Origin(scheme: scheme, authority: Origin.hostAndPort(host, port))?.description
        }

        private static func socketAddress(_ node: ConfigNode) -> ConfigNode? {
            switch node.content {
            case .scalar: nil
            case .sequence(let elements): elements.lazy.compactMap(socketAddress).first
            case .mapping(let entries):
                entries.first { $0.key == "socket_address" }?.value
                    ?? entries.lazy.compactMap { socketAddress($0.value) }.first
            }
        }
    }
}

extension ConfigNode {
    fileprivate var elements: [ConfigNode] {
        guard case .sequence(let nodes) = content else { return [] }
        return nodes
    }
}
