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

    /// Of a gateway that serves.
    ///
    /// - Parameters:
    ///   - isBlocked: Whether no request can be served, or none with a credential that rotates.
    ///   - faults: What makes requests fail now, or keeps a change from being served.
    ///   - notices: What a person has to know in time.
    package static func serving(isBlocked: Bool, faults: [String], notices: [String] = []) -> Readiness {
        let state: State = isBlocked ? .notReady : faults.isEmpty ? .ready : .degraded
        return Readiness(state, reasons: faults + notices)
    }

    /// As people read it, in one line.
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
