import GatewayCore

/// A row that the log has to hold, because something outside of the database names it.
package struct AuditMark: Hashable, Sendable {
    package enum Source: String, Hashable, Sendable, Codable {
        /// The head file beside the database.
        case head
        /// The head file of the log itself, when a copy is verified.
        case logHead = "log_head"
        /// Where `audit.anchor` sends heads.
        case anchor
        /// The entry of a chain in the shared database.
        case shipped
        /// `--head`.
        case argument
    }

    let source: Source
    let id: Int64
    let hash: String
    /// When it was sent to the anchor.
    let at: UnixTime?
    /// A copy may end before it.
    let mayLieBeyondTheEnd: Bool

    init(_ source: Source, id: Int64, hash: String, at: UnixTime? = nil, mayLieBeyondTheEnd: Bool = false) {
        self.source = source
        self.id = id
        self.hash = hash
        self.at = at
        self.mayLieBeyondTheEnd = mayLieBeyondTheEnd
    }

    /// The row is there, and is another one.
    var contradiction: AuditVerifier.Found {
        switch source {
        case .head: .init(.changed, row: id, "row \(id) is not the one that the head file names")
        case .logHead: .init(.changed, row: id, "row \(id) is not the one that the head file of the log names")
        case .shipped: .init(.changed, row: id, "row \(id) is not the one that audit_chain names")
        case .anchor, .argument:
            .init(.rolledBack, row: id, "row \(id) is not the one that \(words); the log \(Self.putBack), and went on")
        }
    }

    /// The log ends before it.
    func absence(behind end: Int64) -> AuditVerifier.Found {
        switch source {
        case .head, .logHead, .shipped:
            let range = id == end + 1 ? "row \(id) was" : "rows \(end + 1) to \(id) were"
            return .init(.cutTail, row: end + 1, "\(range) cut off the end")
        case .anchor, .argument:
            return .init(.rolledBack, row: end + 1, "the log ends before row \(id), which \(words); it \(Self.putBack)")
        }
    }

    private var words: String {
        guard source == .anchor else { return "--head names" }
        return at.map { "was sent to the anchor at \($0.rfc3339)" } ?? "was sent to the anchor"
    }

    private static let putBack = "was put back to an earlier state"
}

/// Compares marks with the rows, as these are passed in order.
struct AuditMarks {
    /// By row.
    private var ahead: ArraySlice<AuditMark>
    private var newest: [AuditMark.Source: AuditVerification.NamedRow] = [:]

    init(_ marks: [AuditMark]) { ahead = marks.sorted { $0.id < $1.id }[...] }

    /// The row of the next mark; a row before it need not be looked at.
    var next: Int64 { ahead.first?.id ?? .max }

    /// - Parameter position: A row that fits, or the last one that retention removed.
    mutating func pass(_ position: ChainWalk.Position) throws(AuditVerifier.Found) {
        while let mark = ahead.first, mark.id <= position.id {
            ahead.removeFirst()
            let isHere = mark.id == position.id
            guard !isHere || mark.hash == position.hash else { throw mark.contradiction }
            note(mark, isCompared: isHere)
        }
    }

    mutating func end(at end: Int64) throws(AuditVerifier.Found) {
        for mark in ahead {
            guard mark.mayLieBeyondTheEnd else { throw mark.absence(behind: end) }
            note(mark, isCompared: false)
        }
        ahead = []
    }

    var compared: [AuditVerification.NamedRow] { newest.values.sorted { $0.source.rawValue < $1.source.rawValue } }

    private mutating func note(_ mark: AuditMark, isCompared: Bool) {
        newest[mark.source] = AuditVerification.NamedRow(source: mark.source, row: mark.id, isCompared: isCompared)
    }
}
