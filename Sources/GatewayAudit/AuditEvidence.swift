import GatewayCore

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
