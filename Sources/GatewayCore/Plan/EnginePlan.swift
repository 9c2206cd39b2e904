/// Another proxy that asks the gateway which fields a request needs, and how it asks (`listeners.authz`).
package struct EnginePlan: Hashable, Sendable {
    /// How an engine says which request it asks about.
    package enum Contract: String, CaseIterable, Sendable {
        /// The request line and `Host` are those of the request itself (Envoy's `ext_authz` over HTTP).
        case envoy
        /// `X-Original-Method`, `X-Original-URI`, `X-Original-Host` and `X-Original-Proto` (nginx `auth_request`).
        case nginx
        /// `X-Forwarded-Method`, `X-Forwarded-Uri`, `X-Forwarded-Host` and `X-Forwarded-Proto` (Caddy, Traefik, HAProxy).
        case forwardAuth = "forward_auth"
    }

    /// Routes name it in `authz`.
    package var name: String
    package var contract: Contract
    /// One of these the engine sends in ``tokenField``. Empty where it proves itself in another way.
    package var tokens: [Secret]
    /// One of these names the certificate of the engine has. Empty where none is asked for.
    package var certificates: [CertificateName]
    /// Stands before the path of each request of ``Contract/envoy``. It begins with a slash, has none at its end, and may be empty.
    package var pathPrefix: String
    /// How long the engine may keep an answer; nil: not at all.
    package var cache: Duration?

    package init(
        name: String,
        contract: Contract,
        tokens: [Secret] = [],
        certificates: [CertificateName] = [],
        pathPrefix: String = "",
        cache: Duration? = nil
    ) {
        self.name = name
        self.contract = contract
        self.tokens = tokens
        self.certificates = certificates
        self.pathPrefix = pathPrefix
        self.cache = cache
    }

    /// A new one, and the one that it replaces.
    package static let maximumTokens = 2
    package static let tokenField = "X-Gw-Engine-Token"
    package static let generationField = "X-Gw-Generation"
    package static let rejectedGenerationField = "X-Gw-Rejected-Generation"
    /// Names the route to whose upstream the engine will send the request. A credential of another route would leave for the wrong
    /// server.
    package static let routeField = "X-Gw-Route"
    /// Between the gateway and its engines only: no client may send them to an upstream.
    package static let ownFields = [tokenField, generationField, rejectedGenerationField, routeField]
}
