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
