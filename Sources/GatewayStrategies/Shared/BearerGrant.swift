import GatewayCore

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
