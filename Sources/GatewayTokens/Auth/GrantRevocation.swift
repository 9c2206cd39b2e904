package import GatewayHTTP

/// What a revocation begins with: it has steps, as obtaining a token has.
package enum RevocationStep: Hashable, Sendable {
    case request(TokenRequest)
    /// Why the authority cannot be told, and what would change that: whole sentences.
    case impossible(String)
}

package enum RevocationAnswer: Hashable, Sendable {
    case revoked
    case failure(GatewayProblem)
    /// There is more to ask before the token is worth nothing.
    case next(TokenRequest)
}

extension RevocationAnswer {
    /// RFC 7009 §2.2.
    package init(_ reply: TokenReply) {
        if (200..<300).contains(reply.status) || reply.saysThatTheTokenIsUnknown {
            self = .revoked
        } else {
            self = .failure(reply.refusalToRevoke(by: "The authority"))
        }
    }
}

extension TokenReply {
    /// Some refuse to end a token that they do not know, which is what was wanted.
    package var saysThatTheTokenIsUnknown: Bool {
        let code = document?["error"]?.string
        return status == 400 && (code == "invalid_token" || code == "invalid_grant")
    }

    /// - Parameter authority: Who answered, as a sentence begins.
    package func refusalToRevoke(by authority: String) -> GatewayProblem {
        let code = OAuthErrorCode.allowListed(document?["error"]?.string)
        let cause = GatewayProblem.Cause(code: code, httpStatus: status)
        let answer = (["status \(status)"] + [code].compactMap(\.self)).joined(separator: ", ")
        guard status != 429, status < 500 else {
            let detail = "\(authority) does not revoke tokens at the moment (\(answer))."
            return GatewayProblem(.tokenTemporarilyUnavailable, detail, cause: cause)
        }
        return GatewayProblem(
            .credentialMisconfigured,
            "\(authority) refused to revoke the token (\(answer)).",
            cause: cause
        )
    }
}
