import GatewayHTTP
package import GatewayTokens

/// Whether the gateway serves requests, and what stands in the way.
package struct Readiness: Hashable, Sendable {
    package enum State: String, Sendable, Codable {
        case ready
        /// Requests are served, and some of them fail or soon will: ``Readiness/reasons`` say which.
        case degraded
        case notReady = "not_ready"
    }

    package var state: State
    package var reasons: [String]

    package init(_ state: State, reasons: [String] = []) {
        self.state = state
        self.reasons = reasons
    }

    package init(isReady: Bool, reasons: [String] = []) {
        self.init(isReady ? .ready : .notReady, reasons: reasons)
    }

    /// The readiness of a gateway that serves.
    ///
    /// - Parameters:
    ///   - isBlocked: Whether no request can be served, or none with a credential that rotates.
    ///   - faults: What makes requests fail now, or keeps a change from being served.
    ///   - notices: What a person has to know in time.
    package static func serving(isBlocked: Bool, faults: [String], notices: [String] = []) -> Readiness {
        let state: State = isBlocked ? .notReady : faults.isEmpty ? .ready : .degraded
        return Readiness(state, reasons: faults + notices)
    }

    /// The state as people read it.
    package var text: String {
        switch state {
        case .ready: "ready"
        case .degraded: "ready, degraded"
        case .notReady: "not ready"
        }
    }

    /// Whether requests are served, if only in part.
    package var isReady: Bool { state != .notReady }
}

extension Readiness: Codable {
    private enum CodingKeys: String, CodingKey {
        case state
        case isReady
        case reasons
    }

    package init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        state = try values.decode(State.self, forKey: .state)
        reasons = try values.decode([String].self, forKey: .reasons)
    }

    package func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: CodingKeys.self)
        try values.encode(state, forKey: .state)
        try values.encode(isReady, forKey: .isReady)
        try values.encode(reasons, forKey: .reasons)
    }
}

/// What readiness is concluded from.
extension Readiness {
    /// Where the gateway is in its life.
    package enum Phase: Sendable {
        case starting
        case serving
        case draining
    }

    /// What the gateway knows of itself when it is asked.
    package struct Facts: Sendable {
        var phase: Phase
        /// Why the configuration on disk is not the one that is served.
        package var refusal: String?
        /// See ``StorageHealth/troubles(_:rotating:)``.
        package var storage: (reasons: [String], blocks: Bool) = ([], false)
        /// What the anchor of the audit log reports.
        package var anchor: [String] = []
        package var tokens: [TokenStatus] = []
        package var expirations: [Expiration] = []
        /// What to do about a clock that differs from an authorization server's.
        var clockAdvice: String?
        /// Why the gateways that share the token store do not know this one.
        var unlisted: String?

        package init(_ phase: Phase) { self.phase = phase }
    }

    package init(_ facts: Facts) {
        let inNeed = facts.tokens.filter(\.needsAttention)
        // The reason of a token that needs a person already says that it has expired.
        let named = Set(inNeed.filter(\.needsPerson).map(\.credential))
        let expirations = facts.expirations.filter { $0.kind == .secret || !named.contains($0.of) }
        let ended = expirations.filter { $0.remainingSeconds <= 0 }.compactMap(ReadinessReasons.notice)
        let ending = expirations.filter { $0.remainingSeconds > 0 }.compactMap(ReadinessReasons.notice)
        let faults =
            [facts.refusal].compactMap(\.self) + facts.storage.reasons + facts.anchor
            + ReadinessReasons.needs(of: inNeed) + ended
        let notices = ending + [facts.clockAdvice, facts.unlisted.map(ReadinessReasons.unlisted)].compactMap(\.self)
        switch facts.phase {
        case .starting: self.init(.notReady, reasons: ["the gateway is starting"] + faults + notices)
        case .serving: self = .serving(isBlocked: facts.storage.blocks, faults: faults, notices: notices)
        case .draining: self.init(.notReady, reasons: ["the gateway is stopping"] + faults + notices)
        }
    }
}

/// Tells from the states of tokens, and from what ends, what people have to do.
enum ReadinessReasons {
    /// One sentence for each token that needs something.
    ///
    /// - Parameter tokens: Tokens with ``TokenStatus/needsAttention``.
    static func needs(of tokens: [TokenStatus]) -> [String] {
        TokenStatus.firstOfEachCredential(tokens).map { token, others in
            "\(token.credential): \(reason(token))\(TokenStatus.othersText(others))"
        }
    }

    /// - Parameter reason: Why the database does not take what the gateway tells of itself.
    static func unlisted(_ reason: String) -> String {
        "authgateway fleet does not list this gateway, and operators are not told what it follows: \(reason)"
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
        let when = remaining > 0 ? "expires in \(ConfigUnits.countdown(remaining))" : "has expired"
        return "\(expiration.of): its \(expiration.kind.rawValue) \(when) (\(expiration.endsAt)): \(expiration.action)"
    }
}

/// The tokens of many subjects, named by one of them.
extension TokenStatus {
    /// One token for each credential: the first subject stands for the others.
    static func firstOfEachCredential(_ tokens: [TokenStatus]) -> [(TokenStatus, others: Int)] {
        var counts: [String: Int] = [:]
        for token in tokens { counts[token.perSubjectCredential ?? token.credential, default: 0] += 1 }
        var seen: Set<String> = []
        return tokens.filter { seen.insert($0.perSubjectCredential ?? $0.credential).inserted }
            .map { ($0, $0.perSubjectCredential.map { counts[$0, default: 1] - 1 } ?? 0) }
    }

    static func othersText(_ others: Int) -> String {
        others > 0 ? " (and \(others) more subject\(others == 1 ? "" : "s"))" : ""
    }
}
