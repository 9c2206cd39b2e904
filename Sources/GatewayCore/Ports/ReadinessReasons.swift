/// Tells from the states of tokens, and from what ends, what people have to do.
package enum ReadinessReasons {
    /// One sentence for each token that needs something.
    ///
    /// - Parameter tokens: Those that ``TokenStatus/needsAttention``.
    package static func needs(of tokens: [TokenStatus]) -> [String] {
        TokenStatus.firstOfEachCredential(tokens).map { token, others in
            "\(token.credential): \(reason(token))\(TokenStatus.othersText(others))"
        }
    }

    /// - Parameter reason: Why the database does not take what the gateway tells of itself.
    package static func unlisted(_ reason: String) -> String {
        "authgateway fleet does not list this gateway, and operators are not told what it follows: \(reason)"
    }

    private static func reason(_ token: TokenStatus) -> String {
        guard let failing = token.failing, !token.needsPerson else {
            return token.lastError ?? token.action ?? token.state.rawValue
        }
        return "failing since \(failing.since): \(failing.reason) \(failing.remedy)"
    }

    /// nil when there is time.
    package static func notice(of expiration: Expiration) -> String? {
        guard expiration.isSoon else { return nil }
        let remaining = expiration.remainingSeconds
        let when = remaining > 0 ? "ends in \(ConfigUnits.countdown(remaining))" : "has ended"
        return "\(expiration.of): its \(expiration.kind.rawValue) \(when) (\(expiration.endsAt)): \(expiration.action)"
    }
}

extension TokenStatus {
    /// Of the subjects that requests have named, the first stands for all of one credential.
    static func firstOfEachCredential(_ tokens: [TokenStatus]) -> [(TokenStatus, others: Int)] {
        var counts: [String: Int] = [:]
        for token in tokens { counts[token.perSubjectCredential ?? token.credential, default: 0] += 1 }
        var seen: Set<String> = []
        return tokens.filter { seen.insert($0.perSubjectCredential ?? $0.credential).inserted }
            .map { ($0, $0.perSubjectCredential.map { counts[$0, default: 1] - 1 } ?? 0) }
    }

    static func othersText(_ others: Int) -> String { others > 0 ? " (and \(others) more subjects)" : "" }
}
