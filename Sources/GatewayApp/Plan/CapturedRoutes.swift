import GatewayConfiguration
import GatewayHTTP
import GatewayProxy
import GatewayTokens

/// The credentials with `capture`, and where routes lead to their authorization servers.
struct CapturedRoutes {
    /// By the index of the credential.
    let credentials: [Int: CapturedCredential]
    private let endpoints:
        [(credential: CapturedCredential, kind: CapturedRequest.Endpoint, endpoint: AuthorityEndpoint)]

    /// The keys of ``credentials`` in the token store.
    var keys: Set<CredentialKey> { Set(credentials.values.map(\.key)) }

    /// - Parameter key: That of a credential in the token store, by its index.
    init(_ plan: Plan, key: (Int) -> CredentialKey?) {
        var credentials: [Int: CapturedCredential] = [:]
        var endpoints: [(CapturedCredential, CapturedRequest.Endpoint, AuthorityEndpoint)] = []
        for (index, credential) in plan.credentials.enumerated() {
            guard let login = credential.capture, let key = key(index) else { continue }
            let captured = CapturedCredential(name: credential.name, key: key)
            credentials[index] = captured
            endpoints += login.endpoints.map { (captured, $0, $1) }
        }
        self.credentials = credentials
        self.endpoints = endpoints.map { (credential: $0, kind: $1, endpoint: $2) }
    }

    func points(of route: RoutePlan) -> [CapturePoint] {
        endpoints.compactMap { credential, kind, endpoint in
            endpoint.seen(on: route).map { CapturePoint(credential: credential, kind: kind, endpoint: $0) }
        }
    }
}

extension AuthorityEndpoint {
    /// The endpoint as a request on the route names it; nil where the route does not lead there.
    fileprivate func seen(on route: RoutePlan) -> AuthorityEndpoint? {
        origin == route.upstream ? behind(route.upstreamPath) : nil
    }
}

extension CredentialPlan {
    /// nil without `capture`.
    var capture: (any CapturableLogin)? {
        guard case .token(let grant) = strategy.behavior else { return nil }
        return grant.capture
    }
}

/// What `check` says of `capture`.
extension Plan {
    func reportCaptures(in fields: ConfigFields) {
        var claimed: [AuthorityEndpoint: String] = [:]
        for credential in credentials {
            guard let login = credential.capture else { continue }
            func report(_ message: String) {
                let path = fields.path.appending("credentials").appending(credential.name).appending("capture")
                fields.context.error(message, at: credential.span, path: path)
            }
            if !listeners.contains(where: { $0.intercepts || $0.usesLocalAuthority }) {
                report("needs a listener with \"intercept: true\", where clients reach the authorization server")
            }
            for (kind, endpoint) in login.endpoints {
                if !routes.contains(where: { endpoint.seen(on: $0) != nil }) {
                    report(
                        "no route leads to \(kind.rawValue); add one to \(endpoint.origin), with \"auth: none\""
                    )
                }
                if let other = claimed.updateValue(credential.name, forKey: endpoint), other != credential.name {
                    report("\(other) captures logins at the same \(kind.rawValue); one server is for one credential")
                }
            }
        }
    }
}
