/// What ``AuditReader/verify(keys:evidence:)`` found.
package struct AuditVerification: Hashable, Sendable, Codable {
    package enum Fault: String, Sendable, Codable {
        /// A column was edited, or the row was written without the key.
        case changed
        /// A row stands where another one was.
        case moved
        /// Rows between two others, or before the first, were removed.
        case missing
        /// Rows at the end were removed.
        case cutTail = "cut_tail"
        /// The log belongs to another installation key.
        case foreignKey = "foreign_key"
        /// Without the head file a cut tail would not show.
        case headMissing = "head_missing"
        case headChanged = "head_changed"
        /// The database and its head file are those of an earlier time: a head that was sent elsewhere is not in them.
        case rolledBack = "rolled_back"
        /// The anchor holds a head that was written without the key.
        case anchorChanged = "anchor_changed"
        /// The record of what retention removed was edited.
        case checkpointChanged = "checkpoint_changed"
        /// A trigger that keeps the table append-only was dropped or replaced, or another one was added.
        case unguarded
        /// The index by time lacks rows or has others, so a question since a time may not have found all of them.
        case indexChanged = "index_changed"
        /// Something else stands in the place of a table or a view.
        case replaced
    }

    package struct Breach: Hashable, Sendable, Codable {
        package let fault: Fault
        /// The first row that does not fit.
        package let row: Int64?
        package let explanation: String
    }

    /// The newest row that something beside the rows names.
    package struct NamedRow: Hashable, Sendable, Codable {
        package let source: AuditMark.Source
        package let row: Int64
        /// False where a copy ends before it, or retention has removed it.
        package let isCompared: Bool
    }

    /// Rows that fit, up to the breach.
    package var rows: Int
    var firstRow: Int64?
    package var lastRow: Int64?
    /// The last row that retention removed; 0 when none.
    package var prunedTo: Int64
    /// Whether it is a copy, which may end before the log does.
    package var isCopy = false
    /// One of each source.
    package var compared: [NamedRow] = []
    /// The last row of the log that this one replaces because its database was gone; nil if it replaces none.
    package var lostTo: Int64?
    package var lostAt: String?
    package var breach: Breach?

    package init(rows: Int, prunedTo: Int64) {
        self.rows = rows
        self.prunedTo = prunedTo
    }

    package var isIntact: Bool { breach == nil }
}

/// What a log is compared with, beside its own head file.
package struct AuditEvidence: Sendable {
    /// A copy may end before the log does, and be without a head file.
    package var isCopy = false
    /// The database of which it is a copy, where that is known.
    package var log: String?
    /// What the anchor holds.
    package var anchor: [AnchoredHead] = []
    /// The newest row that the gateway has shipped, as the database has it beside the rows.
    var shipped: (id: Int64, hash: String)?
    /// A row and its hash, as an operator has them from elsewhere.
    package var row: (id: Int64, hash: String)?

    package init() {}

    func marks(for chain: AuditChain) throws(AuditVerifier.Found) -> [AuditMark] {
        var marks: [AuditMark] = []
        if let log, case .head(let head) = AuditHead.read(for: log), head.isAuthentic(for: chain) {
            marks.append(AuditMark(.logHead, id: head.id, hash: head.hash, mayLieBeyondTheEnd: true))
        }
        for head in anchor {
            guard head.isAuthentic(for: chain) else {
                throw .init(.anchorChanged, row: head.id, "row \(head.id) was written to the anchor without the key")
            }
            marks.append(AuditMark(.anchor, id: head.id, hash: head.hash, at: head.at, mayLieBeyondTheEnd: isCopy))
        }
        // Without rows there is no hash.
        if let shipped, shipped.id > 0 { marks.append(AuditMark(.shipped, id: shipped.id, hash: shipped.hash)) }
        if let row { marks.append(AuditMark(.argument, id: row.id, hash: row.hash)) }
        return marks
    }
}
