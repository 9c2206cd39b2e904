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
