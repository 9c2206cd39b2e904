/// What the `Connection` fields of a head say (RFC 9110 §7.6.1).
package struct ConnectionOptions: Hashable, Sendable {
    package var close = false
    package var keepAlive = false
    package var upgrade = false
    /// Names of fields that end here, lower case; empty for nearly every message.
    package var nominated: [[UInt8]] = []

    /// The same as names of trailers that must not pass, where `_` and `-` are one.
    package var nominatedAsOwned: [[UInt8]] {
        nominated.map { name in name.map { $0 == 0x5F ? 0x2D : $0 } }
    }

    /// More than any honest message has: each name is compared with each field.
    var nominatesTooMany: Bool { nominated.count > Self.maximumNominated }
    package static let maximumNominated = 32

    /// - Parameter name: In lower case.
    func nominates(_ name: String) -> Bool { nominated.contains { $0.elementsEqual(name.utf8) } }

    package init() {}

    mutating func add(_ bytes: borrowing Span<UInt8>, _ value: Range<Int>) {
        if bytes.equalsLowercased(value, "keep-alive") {
            keepAlive = true
        } else if bytes.equalsLowercased(value, "close") {
            close = true
        } else {
            addList(bytes, value)
        }
    }

    private mutating func addList(_ bytes: borrowing Span<UInt8>, _ value: Range<Int>) {
        var start = value.lowerBound
        while start <= value.upperBound {
            var end = start
            while end < value.upperBound, bytes[end] != 0x2C { end += 1 }
            let option = bytes.trimmed(start..<end)
            if bytes.equalsLowercased(option, "keep-alive") {
                keepAlive = true
            } else if bytes.equalsLowercased(option, "close") {
                close = true
            } else if bytes.equalsLowercased(option, "upgrade") {
                upgrade = true
            } else if !option.isEmpty {
                nominated.append(bytes.array(option).map(\.asciiLowercased))
            }
            start = end + 1
        }
    }
}
