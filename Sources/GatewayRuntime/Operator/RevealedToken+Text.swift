import GatewayCore

/// What `token get` prints: the one place where a token reaches standard output.
extension RevealedToken {
    var line: String { access.withValue { "\($0)\n" } }

    func json() throws(CommandFailure) -> String {
        try JSONText.pretty(
            Fields(
                credential: credential,
                generation: generation,
                accessToken: access.withValue { $0 },
                expiresAt: expiresAt?.rfc3339
            )
        )
    }

    private struct Fields: Encodable {
        let credential: String
        let generation: Int
        let accessToken: String
        let expiresAt: String?
    }
}
