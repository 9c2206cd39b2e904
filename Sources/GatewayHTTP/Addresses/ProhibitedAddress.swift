/// Addresses that no name may lead to: link-local addresses, and those where clouds hand out credentials without
/// authentication.
///
/// Only an upstream that names such an address is dialled there. Addresses that carry an IPv4 address in them
/// (RFC 4291 §2.5.5, RFC 6052, RFC 3056) are judged by it.
package enum ProhibitedAddress {
    /// - Parameter address: Its 4 or 16 bytes in network order; anything else is no address, and prohibited.
    package static func contains(_ address: [UInt8]) -> Bool {
        switch address.count {
        case 4: containsV4(number(address[...]))
        case 16: containsV6(address)
        default: true
        }
    }

    private static func containsV4(_ address: UInt32) -> Bool {
        switch address {
        // "This network" (RFC 1122): systems take it for themselves.
        case 0x0000_0000...0x00FF_FFFF: true
        // 169.254.0.0/16, link-local (RFC 3927), the metadata service of most clouds among them.
        case 0xA9FE_0000...0xA9FE_FFFF: true
        // The metadata services of Alibaba, Azure and Oracle, which stand outside of it.
        case 0x6464_64C8, 0xA83F_8110, 0xC000_00C0: true
        default: false
        }
    }

    private static func containsV6(_ address: [UInt8]) -> Bool {
        if address[0] == 0xFE, address[1] & 0xC0 == 0x80 { return true }
        if metadata.contains(where: { address.starts(with: $0) }) { return true }
        guard address != loopback, let embedded = embeddedV4(address) else { return false }
        return containsV4(embedded)
    }

    private static let loopback: [UInt8] = Array(repeating: 0, count: 15) + [1]
    /// How those of clouds begin, which chose parts of fd00::/8: Amazon, Google, Oracle, Alibaba, Linode and Scaleway.
    private static let metadata: [[UInt8]] = [
        [0xFD, 0x00, 0x0E, 0xC2],
        [0xFD, 0x20, 0x00, 0xCE],
        [0xFD, 0x00, 0x00, 0xC1],
        [0xFD, 0x00, 0x01, 0x00] + zeros(8) + [0x01, 0x00, 0x02, 0x00],
        [0xFD, 0x00, 0xA9, 0xFE, 0xA9, 0xFE],
        [0xFD, 0x00, 0x00, 0x42] + zeros(10) + [0x00, 0x42],
    ]

    /// The IPv4 address of a compatible (::/96), mapped (::ffff:0:0/96) or translated one (::ffff:0:0:0/96, 64:ff9b::/96 and
    /// 64:ff9b:1::/48, RFC 8215), or of 6to4 (2002::/16).
    private static func embeddedV4(_ address: [UInt8]) -> UInt32? {
        let carriers = [
            zeros(12), zeros(10) + [0xFF, 0xFF], zeros(8) + [0xFF, 0xFF, 0, 0],
            [0x00, 0x64, 0xFF, 0x9B] + zeros(8), [0x00, 0x64, 0xFF, 0x9B, 0x00, 0x01],
        ]
        if carriers.contains(where: { address.starts(with: $0) }) { return number(address[12...]) }
        return address[0] == 0x20 && address[1] == 0x02 ? number(address[2..<6]) : nil
    }

    private static func zeros(_ count: Int) -> [UInt8] { Array(repeating: 0, count: count) }
    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt32 { bytes.reduce(0) { $0 << 8 | UInt32($1) } }
}

/// Addresses of the public internet (IANA special-purpose registries, RFC 6890): every host may be reached there.
///
/// All others lead to this machine, its network or nowhere. Addresses that carry an IPv4 address in them are judged by it.
package enum PublicAddress {
    package static func contains(_ address: IPAddress) -> Bool {
        let bytes = address.bytes
        guard !ProhibitedAddress.contains(bytes) else { return false }
        if bytes.count == 4 { return !specialV4.contains { $0.contains(address) } }
        if let embedded = carriers.first(where: { $0.network.contains(address) })?.start {
            return IPAddress(Array(bytes[embedded..<embedded + 4])).map(contains) ?? false
        }
        return global.contains(address) && !specialV6.contains { $0.contains(address) }
    }

    /// "This network", private, shared, loopback, link-local, protocol assignments, documentation, benchmarks, relays of 6to4,
    /// multicast and reserved.
    private static let specialV4 = networks(
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4"
    )

    /// Global unicast (RFC 4291 section 2.4); loopback, private, link-local and multicast addresses are outside of it.
    private static let global = networks("2000::/3")[0]
    /// Protocol assignments with Teredo, and documentation.
    private static let specialV6 = networks("2001::/23", "2001:db8::/32", "3fff::/20")

    /// NAT64 (RFC 6052) and 6to4 (RFC 3056), with the place of the IPv4 address.
    private static let carriers = zip(networks("64:ff9b::/96", "2002::/16"), [12, 2]).map { (network: $0, start: $1) }

    private static func networks(_ texts: String...) -> [IPNetwork] { texts.compactMap { IPNetwork($0) } }
}
