/// To which clients a credential's token is handed out, and which token that is.
package struct VendPlan: Hashable, Sendable {
    /// Of ``AccessPlan/clients``.
    package var clients: [String]
    /// The index into ``Plan/credentials``: of the credential itself, or of the weaker one that is made from it.
    package var credential: Int

    package init(clients: [String], credential: Int) {
        self.clients = clients
        self.credential = credential
    }
}
