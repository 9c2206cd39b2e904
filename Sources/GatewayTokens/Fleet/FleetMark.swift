/// A transaction of the database that gateways share. It stands for all that was committed before it began.
package struct FleetMark: Hashable, Comparable, Sendable {
    package let transaction: Int64

    package init(_ transaction: Int64) { self.transaction = transaction }

    package static func < (lhs: Self, rhs: Self) -> Bool { lhs.transaction < rhs.transaction }
}

/// What a gateway has followed of what others did, and so what it may acknowledge.
package struct FleetAcknowledgement: Sendable {
    /// What gateways change for each other.
    package enum Part: CaseIterable, Sendable {
        case locks
        case tokens
    }

    private var followed: [Part: FleetMark] = [:]

    package init() {}

    /// - Parameter mark: One that was known before the gateway began to follow. It has ended all use of withdrawn tokens since.
    package mutating func follow(_ part: Part, upTo mark: FleetMark) {
        // Also where it is lower: after the restore of a database, transactions count from an earlier number.
        followed[part] = mark
    }

    /// nil until each part was followed once.
    package var mark: FleetMark? {
        followed.count == Part.allCases.count ? followed.values.min() : nil
    }
}
