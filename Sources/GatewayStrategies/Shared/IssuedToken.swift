import GatewayCore

/// What an authority may call a token, before it becomes part of a header field.
enum IssuedToken {
    static let limitBytes = 16 << 10

    /// RFC 6749 appendix A.12: visible ASCII. nil for what would break, or break into, a header field.
    static func read(_ text: String) -> Secret? {
        guard text.utf8.count <= limitBytes, FieldSyntax.isValue(text) else { return nil }
        return Secret(text)
    }
}

/// A 2xx answer that yields no token all the same. Repeated with back-off: what broke it may pass.
struct BrokenAnswer: Error, Hashable {
    let reason: String

    func failure(of authority: String, status: Int) -> TokenFailure {
        TokenFailure(
            .transient(retryAfter: nil),
            problem: GatewayProblem(
                .tokenTemporarilyUnavailable,
                "\(authority) answered \(status) without a usable token: \(reason).",
                cause: GatewayProblem.Cause(httpStatus: status)
            )
        )
    }
}
