/// Who needs a credential; ends up in the audit log.
package struct CredentialRequest: Hashable, Sendable {
    package let route: String
    package let client: String?
    package let requestID: String
    /// The client's own id of the request, where it sent one.
    package let clientRequestID: String?
    /// The engine that asked on behalf of the client; nil where the gateway sends the request itself.
    package let engine: String?

    package init(
        route: String,
        client: String?,
        requestID: String,
        clientRequestID: String? = nil,
        engine: String? = nil
    ) {
        self.engine = engine
        self.route = route
        self.client = client
        self.requestID = requestID
        self.clientRequestID = clientRequestID
    }
}

extension CredentialRequest {
    /// What a first use is counted by: each engine is one for all routes.
    package var use: String { engine.map { "authz/\($0)" } ?? route }
}
