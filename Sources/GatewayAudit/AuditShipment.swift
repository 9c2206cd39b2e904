import GatewayCore

/// Rows on their way to a shared database, as JSON arrays with the values that the local log has.
struct AuditShipment: Sendable {
    let chain: String
    /// The end of the copy before these rows; nil when there is none.
    let before: ShippedChain.Link?
    let after: ShippedChain.Link
    let events: ShippedRows
    let checkpoints: ShippedRows
    let lastCheckpoint: ShippedChain.Link?
}

/// Rows of `token_use`.
struct UseShipment: Sendable {
    let chain: String
    let rows: ShippedRows
    let last: UseKey
    /// No other rows follow at the moment.
    let isLast: Bool
}

/// Rows of one table as a JSON array, within limits of rows and bytes.
struct ShippedRows: Sendable {
    struct Limits: Sendable {
        var rows = 500
        var bytes = 1 << 20
    }

    private let limits: Limits
    private var text = "["
    private(set) var count = 0

    init(_ limits: Limits) { self.limits = limits }

    var json: String { text + "]" }

    /// One row always has a place.
    func hasPlace(for row: String) -> Bool {
        count == 0 || count < limits.rows && text.utf8.count + row.utf8.count < limits.bytes
    }

    mutating func add(_ row: String) {
        if count > 0 { text += "," }
        text += row
        count += 1
    }
}
