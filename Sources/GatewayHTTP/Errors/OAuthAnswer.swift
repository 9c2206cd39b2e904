/// What the gateway says in the place of an authorization server: the answer of a token endpoint (RFC 6749 sections 5.1 and 5.2) or
/// of a revocation endpoint (RFC 7009 section 2.2).
package struct OAuthAnswer: Hashable, Sendable {
    package let status: Int
    /// JSON, which may hold tokens.
    package let body: Secret
    /// What went wrong; nil for a success.
    package let failure: String?

    /// A success.
    package init(_ body: Secret) {
        status = 200
        self.body = body
        failure = nil
    }

    /// - Parameters:
    ///   - code: `error` of RFC 6749 section 5.2.
    ///   - detail: One sentence. It goes into `error_description`, and must have no secrets.
    package init(error code: String, _ detail: String, status: Int = 400) {
        // RFC 6749 section 5.2 has no quotes and backslashes in a description.
        let text = String(detail.map { $0 == "\"" || $0 == "\\" ? "'" : $0 })
        self.status = status
        body = Secret("{\"error\":\(JSONString.quoted(code)),\"error_description\":\(JSONString.quoted(text))}\n")
        failure = detail
    }
}

extension GatewayProblem {
    /// Carries the answer to where problems are answered.
    package init(_ answer: OAuthAnswer) {
        // Not `requestRefused`, after which the connection is closed.
        self.init(.routeForbidden, answer.failure ?? "A captured login was answered.")
        oauth = answer
    }
}
