package import GatewayHTTP

/// What became of each credential's tokens in the last day, in quarters of an hour.
package struct CredentialTimeline: Sendable {
    package enum Mark: String, CaseIterable, Sendable, Codable {
        /// A first token: from the authority, a login or an import.
        case acquired
        case renewed
        /// By an upstream.
        case rejected
        /// By the authority, or it could not be asked.
        case refused
    }

    package struct Point: Hashable, Sendable, Codable {
        /// The beginning of the quarter of an hour, RFC 3339.
        package var at: String
        package var marks: [Mark]
    }

    package static let slots = 96
    static let slotMilliseconds: Int64 = 900_000
    /// Credentials that are remembered; subjects that requests name are without number.
    static let credentialLimit = 1000

    private struct Line {
        /// Marks by the number of their slot since 1970.
        var marks: [Int64: Set<Mark>] = [:]
        var latest: Int64 = .min

        mutating func add(_ mark: Mark, in slot: Int64) {
            latest = max(latest, slot)
            marks[slot, default: []].insert(mark)
            let latest = latest
            if marks.count > slots { marks = marks.filter { $0.key > latest - Int64(slots) } }
        }
    }

    private var lines: [String: Line] = [:]

    package init() {}

    package mutating func add(_ entry: AuditEntry) {
        guard let credential = entry.credential, let mark = Mark(event: entry.event),
            let at = UnixTime(rfc3339: entry.at)
        else {
            return
        }
        if lines[credential] == nil { makeRoom() }
        lines[credential, default: Line()].add(mark, in: Self.slot(of: at))
    }

    private mutating func makeRoom() {
        guard lines.count >= Self.credentialLimit else { return }
        guard let oldest = lines.min(by: { $0.value.latest < $1.value.latest }) else { return }
        lines[oldest.key] = nil
    }

    /// The last day, the oldest first; quarters without a mark are left out.
    package func points(of credential: String, at now: UnixTime) -> [Point] {
        let current = Self.slot(of: now)
        let marks = lines[credential]?.marks ?? [:]
        return marks.filter { $0.key > current - Int64(Self.slots) && $0.key <= current }.sorted { $0.key < $1.key }
            .map { slot, marks in
                Point(
                    at: UnixTime(milliseconds: slot * Self.slotMilliseconds).rfc3339,
                    marks: Mark.allCases.filter(marks.contains)
                )
            }
    }

    private static func slot(of time: UnixTime) -> Int64 { time.milliseconds / slotMilliseconds }
}

extension CredentialTimeline.Mark {
    /// nil for an event that the timeline does not show.
    package init?(event: String) {
        switch TokenEvent.Name(rawValue: event) {
        case .acquired, .imported, .loginCompleted: self = .acquired
        case .renewed: self = .renewed
        case .rejected: self = .rejected
        case .acquisitionFailed, .renewalFailed, .loginRequired, .loginFailed: self = .refused
        default: return nil
        }
    }
}
