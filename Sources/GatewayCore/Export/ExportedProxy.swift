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
