/// One thing that `authgateway doctor` looked at: how it is and, where something is wrong, what to do.
///
/// Holds no secret.
package struct DoctorFinding: Hashable, Sendable {
    /// What was looked at, in the order of the report.
    package enum Group: String, CaseIterable, Sendable, Encodable {
        case configuration
        case files
        case gateway
        case ports
        case store
        case audit
        case names
        case tls
        case upstreams
        case authorities
        case clock
        case credentials
    }

    package enum Level: String, CaseIterable, Sendable, Encodable {
        case ok
        /// Not looked at; the text says why.
        case skipped
        case warning
        case error
    }

    package let group: Group
    package let level: Level
    /// A file, an address, a name of the configuration.
    package let subject: String
    /// One line.
    package let text: String
    /// What a person should do, as a sentence.
    package var remedy: String?
    /// What to type for it.
    package var command: String?

    package init(
        _ group: Group,
        _ level: Level,
        _ subject: String,
        _ text: String,
        remedy: String? = nil,
        command: String? = nil
    ) {
        self.group = group
        self.level = level
        self.subject = subject
        self.text = text
        self.remedy = remedy
        self.command = command
    }
}

extension DoctorFinding {
    fileprivate func about(_ subject: String) -> DoctorFinding {
        DoctorFinding(group, level, subject, text, remedy: remedy, command: command)
    }

    /// The first five stand for many.
    static func names(_ names: [String]) -> String {
        guard names.count > 6 else { return names.joined(separator: ", ") }
        return names.prefix(5).joined(separator: ", ") + " and \(names.count - 5) more"
    }
}

/// All findings, group by group.
package struct DoctorReport: Sendable, Encodable {
    package let findings: [DoctorFinding]

    package init(_ findings: [DoctorFinding]) {
        self.findings = DoctorFinding.Group.allCases.flatMap { group in findings.filter { $0.group == group } }
    }

    package func count(_ level: DoctorFinding.Level) -> Int { findings.count { $0.level == level } }

    /// The maximum number of findings of one level that a group shows to people.
    static let mostShown = 20

    /// What people read of a group: findings that say the same of more than three subjects are one, and the first
    /// ``mostShown`` of each level stand for all.
    ///
    /// - Returns: Also how many findings of each level are left out.
    package func condensed(_ group: DoctorFinding.Group) -> (
        findings: [DoctorFinding], omitted: [DoctorFinding.Level: Int]
    ) {
        var subjects: [DoctorFinding: [String]] = [:]
        var order: [DoctorFinding] = []
        for finding in findings where finding.group == group {
            let said = finding.about("")
            if subjects[said] == nil { order.append(said) }
            subjects[said, default: []].append(finding.subject)
        }
        var shown: [DoctorFinding] = []
        var (counts, omitted): ([DoctorFinding.Level: Int], [DoctorFinding.Level: Int]) = ([:], [:])
        for said in order {
            let all = subjects[said] ?? []
            let lines = all.count > 3 ? [DoctorFinding.names(all)] : all
            let room = max(0, Self.mostShown - counts[said.level, default: 0])
            shown += lines.prefix(room).map(said.about)
            counts[said.level, default: 0] += lines.count
            if lines.count > room { omitted[said.level, default: 0] += all.count > 3 ? all.count : lines.count - room }
        }
        return (shown, omitted)
    }

    /// Whether there is no error.
    package var isHealthy: Bool { count(.error) == 0 }

    private enum CodingKeys: String, CodingKey {
        case isHealthy = "ok"
        case errors
        case warnings
        case findings
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(isHealthy, forKey: .isHealthy)
        try container.encode(count(.error), forKey: .errors)
        try container.encode(count(.warning), forKey: .warnings)
        try container.encode(findings, forKey: .findings)
    }
}

extension DoctorFinding: Encodable {}
