import GatewayCore

/// Tells from the states of tokens what people have to do.
enum ReadinessReasons {
    /// One sentence for each token that needs something. Of the subjects that requests have named, the first stands for all
    /// of one credential.
    ///
    /// - Parameter tokens: Those that need a person, and those whose calls fail.
    static func needs(of tokens: [TokenStatus]) -> [String] {
        var counts: [String: Int] = [:]
        var needs: [(credential: String?, text: String)] = []
        for token in tokens {
            if let credential = token.perSubjectCredential {
                counts[credential, default: 0] += 1
                if counts[credential, default: 0] > 1 { continue }
            }
            needs.append((token.perSubjectCredential, "\(token.credential): \(reason(token))"))
        }
        return needs.map { need in
            let others = need.credential.flatMap { counts[$0] }.map { $0 - 1 } ?? 0
            return others > 0 ? "\(need.text) (and \(others) more subjects)" : need.text
        }
    }

    private static func reason(_ token: TokenStatus) -> String {
        guard let failing = token.failing, !token.needsPerson else {
            return token.lastError ?? token.action ?? token.state.rawValue
        }
        return "failing since \(failing.since): \(failing.reason) \(failing.remedy)"
    }

    /// nil when there is time.
    static func notice(of expiration: Expiration) -> String? {
        guard expiration.isSoon else { return nil }
        let remaining = expiration.remainingSeconds
        let when = remaining > 0 ? "ends in \(ConfigUnits.countdown(remaining))" : "has ended"
        return "\(expiration.of): its \(expiration.kind.rawValue) \(when) (\(expiration.endsAt)): \(expiration.action)"
    }
}
