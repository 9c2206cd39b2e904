import GatewayHTTP
import GatewayProxy

/// Finds out who uses the admin listener, and what that person may do.
struct AdminAuthorizer: Sendable {
    /// A user whose proof was accepted.
    enum Person: Hashable, Sendable {
        /// Who can read the state directory: an operator.
        case holderOfAdminToken
        case user(String, AdminRole)

        var role: AdminRole {
            switch self {
            case .holderOfAdminToken: .operator
            case .user(_, let role): role
            }
        }
    }

    /// What a request says about its sender.
    enum Evidence: Hashable, Sendable {
        case none
        /// There is a token, and nobody has it.
        case unknown
        case person(Person)
        /// The token and the certificate are those of different users.
        case contradictory

        var isPerson: Bool { if case .person = self { true } else { false } }
        /// nil for the admin token, too.
        var userName: String? { if case .person(.user(let name, _)) = self { name } else { nil } }
    }

    private let adminToken: Secret
    private let users: [AdminUser]
    private let proofs: ClientAuthenticator

    init(adminToken: Secret, users: [AdminUser], sha256: @escaping @Sendable ([UInt8]) -> [UInt8]) {
        self.adminToken = adminToken
        self.users = users
        proofs = ClientAuthenticator(users.map(\.proofs), sha256: sha256)
    }

    /// - Parameters:
    ///   - token: nil where the request has none.
    ///   - peer: The peer of the connection.
    func evidence(presenting token: [UInt8]?, peer: PeerIdentity?) -> Evidence {
        if let token, adminToken.matches(token) { return .person(.holderOfAdminToken) }
        let evidence = proofs.evidence(of: token.map { [$0] } ?? [], peer: peer)
        guard !evidence.isContradictory else { return .contradictory }
        guard let name = evidence.client, let user = users.first(where: { $0.proofs.name == name }) else {
            return token == nil ? .none : .unknown
        }
        return .person(.user(name, user.role))
    }

    /// Why a user without this role is refused; nil for a user with it.
    func refusal(of evidence: Evidence, needing role: AdminRole) -> GatewayProblem? {
        switch evidence {
        case .none, .unknown:
            let advice =
                users.isEmpty
                ? "Send the admin token of the state directory (file admin.token) as a bearer token."
                : "Send the token of a user (listeners.admin.users) or the admin token as a bearer token."
            guard evidence == .unknown else { return GatewayProblem(.adminAuthRequired, advice) }
            let cause = GatewayProblem.Cause(code: "invalid_token")
            return GatewayProblem(.adminAuthRequired, "The token of the request is wrong. \(advice)", cause: cause)
        case .contradictory:
            let detail = "The token and the certificate belong to different users; send those of one user."
            let cause = GatewayProblem.Cause(code: "invalid_token")
            return GatewayProblem(.adminAuthRequired, detail, cause: cause)
        case .person(let person):
            guard role == .operator, case .user(let name, .viewer) = person else { return nil }
            let detail =
                "\(name) is a viewer and cannot change anything. Only operators can do this (listeners.admin.users)."
            return GatewayProblem(.routeForbidden, detail)
        }
    }
}
