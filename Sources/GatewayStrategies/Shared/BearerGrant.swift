import GatewayHTTP
import GatewayTokens

/// A grant that can ask anew at any time, spends nothing by that, and sends what it gets as a bearer token.
protocol BearerGrant: TokenGrant {}

extension BearerGrant {
    var isRenewable: Bool { true }
    var rotatesRefreshToken: Bool { false }
    func seed(at now: Moment) -> TokenSet? { nil }
    func injection(of token: TokenSet) -> Injection { .bearer(token.access) }
}

extension GrantStep {
    /// A token that the grant signs itself.
    static func signed(_ token: () throws(TokenFailure) -> TokenSet) -> GrantStep {
        do throws(TokenFailure) {
            return .token(try token())
        } catch {
            return .impossible(error)
        }
    }

    /// A request, or why there is none.
    init(_ request: () throws(TokenFailure) -> TokenRequest) {
        do throws(TokenFailure) {
            self = .request(try request())
        } catch {
            self = .impossible(error)
        }
    }
}

extension Injection {
    /// RFC 6750 §2.1, with a capital B whatever `token_type` an authorization server answers.
    static func bearer(_ token: Secret) -> Injection { .authorization(scheme: "Bearer", token) }

    /// RFC 7617, in UTF-8.
    static func basic(username: String, password: Secret) -> Injection {
        .authorization(scheme: "Basic", password.withValue { Secret(Base64.encode("\(username):\($0)".utf8)) })
    }
}

/// What an authorization server may call a token, before it becomes part of a header field.
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
