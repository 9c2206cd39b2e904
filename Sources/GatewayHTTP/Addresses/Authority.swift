/// `host[:port]` in the bytes of a head.
package struct Authority {
    /// Without brackets, and without the dot of the root behind a name; empty when an HTTP/1.0 client sent no Host.
    package let host: Range<Int>
    /// There is such a dot.
    package let isRooted: Bool
    package let port: Int?

    package init?(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>) {
        var hostStart = range.lowerBound
        var hostEnd = range.lowerBound
        if !range.isEmpty, bytes[range.lowerBound] == 0x5B {
            hostStart += 1
            hostEnd = hostStart
            while hostEnd < range.upperBound, bytes[hostEnd] != 0x5D { hostEnd += 1 }
            guard hostEnd < range.upperBound, Self.mayBeIPv6(bytes, hostStart..<hostEnd) else { return nil }
        } else {
            while hostEnd < range.upperBound, bytes[hostEnd] != 0x3A { hostEnd += 1 }
        }
        isRooted = hostStart == range.lowerBound && hostEnd > hostStart + 1 && bytes[hostEnd - 1] == 0x2E
        host = hostStart..<(isRooted ? hostEnd - 1 : hostEnd)
        var index = hostStart > range.lowerBound ? hostEnd + 1 : hostEnd
        guard index < range.upperBound else {
            port = nil
            return
        }
        guard bytes[index] == 0x3A, !host.isEmpty, (2...6).contains(range.upperBound - index) else { return nil }
        index += 1
        var number = 0
        while index < range.upperBound {
            guard bytes[index].isDigit else { return nil }
            number = number * 10 + Int(bytes[index] - 0x30)
            index += 1
        }
        port = number
    }

    /// A name or an address of IPv4 has no brackets around it (RFC 3986 §3.2.2): it would be another spelling of the same host.
    static func mayBeIPv6(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>) -> Bool {
        var colons = 0
        for index in range {
            switch bytes[index] {
            case 0x3A: colons += 1
            case let byte where byte.isHexDigit || byte == 0x2E: break
            default: return false
            }
        }
        return colons >= 2
    }
}
