/// An address of IPv4 or IPv6. An IPv4 address that stands in an IPv6 one (`::ffff:192.0.2.7`) is the IPv4 address.
package struct IPAddress: Hashable, Sendable, CustomStringConvertible {
    /// 4 or 16, in network order.
    package let bytes: [UInt8]

    /// - Parameter bytes: 4 or 16 in network order; anything else is no address.
    package init?(_ bytes: [UInt8]) {
        switch bytes.count {
        case 4: self.bytes = bytes
        case 16: self.bytes = bytes.starts(with: Self.mapped) ? Array(bytes[12...]) : bytes
        default: return nil
        }
    }

    /// - Parameter text: Four decimal numbers, or an IPv6 address without brackets and zone (RFC 4291 section 2.2).
    package init?(_ text: String) {
        guard text.utf8.count <= 45 else { return nil }
        guard let bytes = text.contains(":") ? Self.version6(text) : Self.version4(text) else { return nil }
        self.init(bytes)
    }

    /// IPv6 as RFC 5952 writes it: the first of the longest runs of zeros is left out.
    package var description: String {
        guard bytes.count == 16 else { return bytes.map(String.init).joined(separator: ".") }
        let groups = stride(from: 0, to: 16, by: 2).map { UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]) }
        let text = { (groups: ArraySlice<UInt16>) in groups.map { String($0, radix: 16) }.joined(separator: ":") }
        let runs = groups.indices.map { start in groups[start...].prefix { $0 == 0 }.count }
        guard let longest = runs.max(), longest > 1, let start = runs.firstIndex(of: longest) else {
            return text(groups[...])
        }
        return "\(text(groups[..<start]))::\(text(groups[(start + longest)...]))"
    }

    /// The host as hosts are compared: of an address of IPv6 there is one spelling (RFC 5952).
    ///
    /// - Parameter host: In lower case, without brackets.
    package static func hostName(_ host: String) -> String {
        guard host.contains(":"), let address = IPAddress(host), address.bytes.count == 16 else { return host }
        return address.description
    }

    /// The host of a head as hosts are compared; nil where it is spelled so already.
    package static func otherSpelling(_ bytes: borrowing Span<UInt8>, _ host: Range<Int>) -> [UInt8]? {
        for index in host where bytes[index] == 0x3A {
            let given = bytes.string(host).lowercased()
            let name = hostName(given)
            return name == given ? nil : Array(name.utf8)
        }
        return nil
    }

    private static let mapped: [UInt8] = Array(repeating: 0, count: 10) + [0xFF, 0xFF]

    /// Some read a leading zero as octal, so it is refused.
    private static func version4(_ text: some StringProtocol) -> [UInt8]? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        let numbers = parts.compactMap { part in UInt8(part).flatMap { String($0) == part ? $0 : nil } }
        return parts.count == 4 && numbers.count == 4 ? numbers : nil
    }

    private static func version6(_ text: String) -> [UInt8]? {
        guard let gap = text.firstRange(of: "::") else {
            return groups(text, endsAddress: true).flatMap { $0.count == 16 ? $0 : nil }
        }
        guard let head = groups(text[..<gap.lowerBound], endsAddress: false),
            let tail = groups(text[gap.upperBound...], endsAddress: true),
            head.count + tail.count <= 14
        else { return nil }
        return head + Array(repeating: 0, count: 16 - head.count - tail.count) + tail
    }

    /// The bytes of groups between colons. The last one of an address may be an IPv4 address.
    private static func groups(_ text: some StringProtocol, endsAddress: Bool) -> [UInt8]? {
        guard !text.isEmpty else { return [] }
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        var bytes: [UInt8] = []
        for (index, part) in parts.enumerated() {
            if endsAddress, index == parts.count - 1, part.contains(".") {
                guard let last = version4(part) else { return nil }
                bytes += last
            } else {
                guard (1...4).contains(part.utf8.count), part.utf8.allSatisfy({ $0.isHexDigit }),
                    let group = UInt16(part, radix: 16)
                else { return nil }
                bytes += [UInt8(group >> 8), UInt8(group & 0xFF)]
            }
        }
        return bytes
    }
}

/// The addresses that begin with the same bits: `10.0.0.0/8`.
package struct IPNetwork: Hashable, Sendable {
    package let address: IPAddress
    package let prefix: Int

    package var isAddress: Bool { prefix == address.bytes.count * 8 }

    /// One address alone.
    package init(_ address: IPAddress) {
        self.address = address
        prefix = address.bytes.count * 8
    }

    /// - Returns: nil if the text is no network, or if bits behind the prefix are set, because then it is unclear what is meant.
    package init?(_ text: String) {
        guard let slash = text.firstIndex(of: "/"), let address = IPAddress(String(text[..<slash])) else { return nil }
        let number = text[text.index(after: slash)...]
        guard let prefix = Int(number), String(prefix) == number, (0...address.bytes.count * 8).contains(prefix) else {
            return nil
        }
        (self.address, self.prefix) = (address, prefix)
        for (index, byte) in address.bytes.enumerated() where byte & ~mask(index) != 0 { return nil }
    }

    package func contains(_ other: IPAddress) -> Bool {
        guard other.bytes.count == address.bytes.count else { return false }
        return other.bytes.indices.allSatisfy { other.bytes[$0] & mask($0) == address.bytes[$0] }
    }

    /// The bits of one byte that belong to the prefix.
    private func mask(_ index: Int) -> UInt8 {
        let bits = min(8, max(0, prefix - index * 8))
        return bits == 0 ? 0 : UInt8(truncatingIfNeeded: 0xFF << (8 - bits))
    }
}

/// What counts as one client address in `limits.connections_per_address`.
package struct PeerAddressKey: Hashable, Sendable {
    private enum Network: Hashable {
        case ipv4(UInt32)
        /// The first 64 bits: a host chooses the others as it likes (RFC 4291 section 2.5.1).
        case ipv6(UInt64)
    }

    private let network: Network

    /// An IPv4 address that stands in an IPv6 address (`::ffff:192.0.2.7`) counts as the IPv4 address.
    ///
    /// - Parameter address: Its 4 or 16 bytes in network order.
    /// - Returns: nil for loopback, where every client has the same address, and for anything that is no address.
    package init?(_ address: [UInt8]) {
        let isMapped = address.count == 16 && address.starts(with: Self.mapped)
        let address = isMapped ? Array(address[12...]) : address
        switch address.count {
        case 4 where address[0] != 127: network = .ipv4(Self.number(address[...]))
        case 16 where address != Self.loopback: network = .ipv6(Self.number(address[..<8]))
        default: return nil
        }
    }

    private static let mapped: [UInt8] = Array(repeating: 0, count: 10) + [0xFF, 0xFF]
    private static let loopback: [UInt8] = Array(repeating: 0, count: 15) + [1]

    private static func number<Number: FixedWidthInteger>(_ bytes: ArraySlice<UInt8>) -> Number {
        bytes.reduce(0) { $0 << 8 | Number($1) }
    }
}

extension PeerAddressKey {
    /// The network that counts as one address, as text: of an IPv6 address its first 64 bits, any other text as it is.
    package static func network(ofAddress text: String) -> String {
        guard text.contains(":"), !text.contains(".") else { return text }
        let parts = text.split(separator: "::", maxSplits: 1, omittingEmptySubsequences: false)
        let first = parts[0].split(separator: ":")
        let second = parts.count > 1 ? parts[1].split(separator: ":") : []
        let zeros = repeatElement(Substring("0"), count: max(0, 8 - first.count - second.count))
        let groups = parts.count > 1 ? first + zeros + second : first
        return "\(groups.prefix(4).joined(separator: ":"))::/64"
    }
}
