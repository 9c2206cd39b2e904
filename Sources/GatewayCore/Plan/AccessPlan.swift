/// Who may use the gateway.
package struct AccessPlan: Hashable, Sendable {
    package enum RequireClient: String, CaseIterable, Sendable {
        case auto
        case `true`
        case `false`
    }

    package struct Client: Hashable, Sendable {
        package enum Token: Hashable, Sendable {
            case token(Secret)
            /// 32 bytes.
            case tokenSHA256([UInt8])
        }

        /// A token, and the one that it replaces.
        package static let maximumTokens = 2

        package var name: String
        /// Each proves the client. In the order of the configuration.
        package var tokens: [Token]
        /// A certificate with this name proves the client, too.
        package var certificate: CertificateName?
        /// A signed token proves the client, too.
        package var jwt: ClientJWTPlan?
        package var limits: ClientLimitsPlan

        package init(
            name: String,
            tokens: [Token],
            certificate: CertificateName? = nil,
            jwt: ClientJWTPlan? = nil,
            limits: ClientLimitsPlan = ClientLimitsPlan()
        ) {
            self.name = name
            self.tokens = tokens
            self.certificate = certificate
            self.jwt = jwt
            self.limits = limits
        }

        /// A client with one token.
        package init(name: String, proof: Token, limits: ClientLimitsPlan = ClientLimitsPlan()) {
            self.init(name: name, tokens: [proof], limits: limits)
        }
    }

    package var clients: [Client]
    /// Browser origins that may call, as `Origin` spells them.
    package var allowedOrigins: [String]
    package var requireClient: RequireClient

    package init(clients: [Client], allowedOrigins: [String], requireClient: RequireClient) {
        self.clients = clients
        self.allowedOrigins = allowedOrigins
        self.requireClient = requireClient
    }

    /// Whether a request needs a client token where its route names no clients.
    package var asksForClients: Bool {
        switch requireClient {
        case .true: true
        case .false: false
        case .auto: !clients.isEmpty
        }
    }
}
