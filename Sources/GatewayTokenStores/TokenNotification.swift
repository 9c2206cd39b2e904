import GatewayCore

/// What a gateway tells the others with NOTIFY.
struct TokenNotification {
    static let channel = "authgateway_tokens"

    let change: TokenChange
    /// The store that has written it, as it calls itself.
    let sender: String

    init?(payload: String) {
        let parts = payload.split(separator: " ")
        guard parts.count == 3, let revision = Int64(parts[1]) else { return nil }
        change = TokenChange(CredentialKey(digest: String(parts[0])), TokenRevision(revision))
        sender = String(parts[2])
    }

    /// An expression of SQL that sends one for the row at hand.
    ///
    /// - Parameter sender: An expression.
    static func sending(by sender: String) -> String {
        "pg_notify('\(channel)', key || ' ' || revision || ' ' || \(sender))"
    }

    static func makeSender() -> String { Hexadecimal.text(of: (0..<8).map { _ in UInt8.random(in: .min ... .max) }) }
}
