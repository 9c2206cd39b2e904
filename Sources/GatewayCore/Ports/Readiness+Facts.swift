extension Readiness {
    /// Where the gateway is in its life.
    package enum Phase: Sendable {
        case starting
        case serving
        case draining
    }

    /// What the gateway knows of itself when it is asked.
    package struct Facts: Sendable {
        package var phase: Phase
        /// Why the configuration on disk is not the one that is served.
        package var refusal: String?
        /// See ``StorageHealth/troubles(_:rotating:)``.
        package var storage: (reasons: [String], blocks: Bool) = ([], false)
        /// What the anchor of the audit log reports.
        package var anchor: [String] = []
        package var tokens: [TokenStatus] = []
        package var expirations: [Expiration] = []
        /// What to do about a clock that differs from an authority's.
        package var clockAdvice: String?
        /// Why the gateways that share the token store do not know this one.
        package var unlisted: String?

        package init(_ phase: Phase) { self.phase = phase }
    }

    package init(_ facts: Facts) {
        let inNeed = facts.tokens.filter(\.needsAttention)
        // The reason of a token that needs a person tells of its end as well.
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
