/// The names that a configuration gives. Read without the rest, so that a value that is wrong or not at hand does not matter.
package struct ConfiguredNames: Hashable, Sendable {
    package private(set) var credentials: [String] = []
    package private(set) var clients: [String] = []
    package private(set) var routes: [String] = []
    /// Scheme, host and port, by route.
    package private(set) var upstreams: [String: String] = [:]

    /// Without a configuration there are none.
    package init() {}

    init(_ root: ConfigNode) {
        credentials = root.entries(of: "credentials").map(\.key)
        clients = (root.value(of: "access")?.entries(of: "clients") ?? []).map(\.key)
        for route in root.entries(of: "routes") {
            routes.append(route.key)
            if let auth = route.value.value(of: "auth"), auth.value(of: "strategy") != nil {
                credentials.append("routes.\(route.key)")
            }
            if case .scalar(let upstream)? = route.value.value(of: "upstream")?.content {
                upstreams[route.key] = (try? UpstreamURL(upstream.text))?.origin.description
            }
        }
    }
}
