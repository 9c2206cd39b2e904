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
    /// What it says of many subjects in one line, where ``text``, ``remedy`` and ``command`` are of this one alone.
    package var gathered: String?

    package init(
        _ group: Group,
        _ level: Level,
        _ subject: String,
        _ text: String,
        gathered: String? = nil,
        remedy: String? = nil,
        command: String? = nil
    ) {
        self.group = group
        self.level = level
        self.subject = subject
        self.text = text
        self.gathered = gathered
        self.remedy = remedy
        self.command = command
    }
}

/// Findings that differ only in their subject become one.
extension DoctorFinding {
    fileprivate func about(_ subject: String) -> DoctorFinding {
        DoctorFinding(group, level, subject, text, gathered: gathered, remedy: remedy, command: command)
    }

    /// Without what only its own subject has, so that it is equal for all of which it says the same.
    fileprivate var likeness: DoctorFinding { gathered.map { DoctorFinding(group, level, "", $0) } ?? about("") }

    /// As the example of all of which it says the same.
    fileprivate var example: DoctorFinding {
        gathered.map { DoctorFinding(group, level, subject, $0, remedy: remedy, command: command) } ?? self
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

    /// What people read of a group, and what it leaves out.
    package struct Excerpt: Sendable {
        package var findings: [DoctorFinding] = []
        /// How many findings of each level are left out.
        package var omitted: [DoctorFinding.Level: Int] = [:]
        /// Some lines stand for findings that differ.
        package var isGathered = false
    }

    /// What people read of a group: findings that say the same of more than three subjects are one, and the first
    /// ``mostShown`` of each level stand for all.
    ///
    /// Where a level has more lines than that, findings that differ in a detail are one as well.
    package func condensed(_ group: DoctorFinding.Group) -> Excerpt {
        let own = findings.filter { $0.group == group }
        var lines = Self.lines(of: own) { $0.about("") }
        let crowded = Set(
            DoctorFinding.Level.allCases.filter { level in
                lines.count { $0.finding.level == level } > Self.mostShown
            }
        )
        var excerpt = Excerpt()
        if !crowded.isEmpty {
            let before = lines.count
            lines = Self.lines(of: own) { crowded.contains($0.level) ? $0.likeness : $0.about("") }
            excerpt.isGathered = lines.count < before
        }
        var counts: [DoctorFinding.Level: Int] = [:]
        for (finding, subjects) in lines {
            let level = finding.level
            if counts[level, default: 0] < Self.mostShown {
                excerpt.findings.append(finding)
            } else {
                excerpt.omitted[level, default: 0] += subjects
            }
            counts[level, default: 0] += 1
        }
        return excerpt
    }

    /// A line for each finding, or for more than three of which `likeness` is the same, where the first of them stands.
    ///
    /// - Returns: Each with the number of findings that it stands for.
    private static func lines(
        of findings: [DoctorFinding],
        likeness: (DoctorFinding) -> DoctorFinding
    ) -> [(finding: DoctorFinding, subjects: Int)] {
        var alike: [DoctorFinding: [Int]] = [:]
        var order: [DoctorFinding] = []
        for (index, finding) in findings.enumerated() {
            let said = likeness(finding)
            if alike[said] == nil { order.append(said) }
            alike[said, default: []].append(index)
        }
        return order.flatMap { said -> [(finding: DoctorFinding, subjects: Int)] in
            let all = (alike[said] ?? []).map { findings[$0] }
            guard all.count > 3, let first = all.first else { return all.map { ($0, 1) } }
            let isExact = first.about("") == said
            let line = (isExact ? first : first.example).about(DoctorFinding.names(all.map(\.subject)))
            return [(line, all.count)]
        }
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

extension DoctorFinding: Encodable {
    private enum CodingKeys: String, CodingKey {
        case group
        case level
        case subject
        case text
        case remedy
        case command
    }
}
