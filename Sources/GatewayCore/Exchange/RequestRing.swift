/// The last requests of one worker, the oldest replaced first. Its memory is there from the beginning: adding one allocates nothing.
package struct RequestRing: ~Copyable, Sendable {
    private var entries: [FinishedRequest?]
    /// How many were ever added.
    package private(set) var count: UInt64 = 0

    package init(capacity: Int) { entries = Array(repeating: nil, count: max(1, capacity)) }

    package mutating func add(_ record: borrowing ExchangeRecord) {
        entries[place(of: count)] = FinishedRequest(record)
        count &+= 1
        assert(count - first <= UInt64(entries.count), "The ring has more entries than places.")
        assert(entries[place(of: count - 1)] != nil, "The entry that was added is not in its place.")
    }

    /// Those of this id, the gateway's or the client's, oldest first.
    package func find(_ id: String) -> [FinishedRequest] {
        let own = RequestID(id)
        var found: [FinishedRequest] = []
        visit(after: 0) { if $0.requestID == own || $0.clientRequestID == id { found.append($0) } }
        return found
    }

    /// Appends those that were added behind the first `position` ones, oldest first.
    ///
    /// - Returns: How many of them were replaced already.
    package func append(after position: UInt64, to found: inout [FinishedRequest]) -> UInt64 {
        visit(after: position) { found.append($0) }
        return first > position ? first - position : 0
    }

    /// The number of the oldest one that is there.
    private var first: UInt64 { count > UInt64(entries.count) ? count - UInt64(entries.count) : 0 }

    private func place(of number: UInt64) -> Int { Int(number % UInt64(entries.count)) }

    private func visit(after position: UInt64, _ body: (FinishedRequest) -> Void) {
        var number = max(position, first)
        while number < count {
            assert(entries[place(of: number)] != nil, "An entry of the ring is missing.")
            if let entry = entries[place(of: number)] { body(entry) }
            number += 1
        }
    }
}
