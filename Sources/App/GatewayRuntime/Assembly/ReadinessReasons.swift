import GatewayCore

/// Tells from the states of tokens what people have to do.
enum ReadinessReasons {
    /// One sentence for each token that needs something. Of the subjects that requests have named, the first stands for all
    /// of one credential.
    ///
    /// - Parameter tokens: Those that need a person, and those that could not be obtained when they should have been.
    static func needs(of tokens: [TokenStatus]) -> [String] {
        var counts: [String: Int] = [:]
        var needs: [(credential: String?, text: String)] = []
        for token in tokens {
            if let credential = token.perSubjectCredential {
                counts[credential, default: 0] += 1
                if counts[credential, default: 0] > 1 { continue }
            }
            let text = "\(token.credential): \(token.lastError ?? token.action ?? token.state.rawValue)"
            needs.append((token.perSubjectCredential, text))
        }
        return needs.map { need in
            let others = need.credential.flatMap { counts[$0] }.map { $0 - 1 } ?? 0
            return others > 0 ? "\(need.text) (and \(others) more subjects)" : need.text
        }
    }

    /// nil when there is time.
    static func notice(of expiration: Expiration) -> String? {
        guard expiration.isSoon else { return nil }
        let remaining = expiration.remainingSeconds
        let when = remaining > 0 ? "ends in \(ConfigUnits.countdown(remaining))" : "has ended"
        return "\(expiration.of): its \(expiration.kind.rawValue) \(when) (\(expiration.endsAt)): \(expiration.action)"
    }
}
