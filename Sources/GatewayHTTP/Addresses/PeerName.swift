/// The name or the address that a server's certificate must carry.
///
/// The TLS library also accepts a certificate for the address that was dialled. An attacker who can forge DNS answers can have such a
/// certificate for an address of their own, and so can a proxy. Where a name is expected, only a name is accepted (RFC 9525 §6).
package struct PeerName: Sendable {
    /// What a certificate carries as its subject (RFC 5280 section 4.2.1.6).
    package enum Alternative: Hashable, Sendable {
        case name([UInt8])
        /// 4 or 16 bytes in network order.
        case address([UInt8])
        case other
    }

    private enum Kind {
        case name(labels: [[UInt8]])
        /// nil for one that no certificate can carry, such as one with a zone.
        case address(IPAddress?)
    }

    private let kind: Kind

    package init(_ name: String) {
        let address = IPAddress(name)
        kind = address != nil || name.contains(":") ? .address(address) : .name(labels: Self.labels(Array(name.utf8)))
    }

    /// - Parameter names: All that the certificate carries. One without any is left to the library, which has compared the common name
    ///   with a name. A common name is no address.
    package func isNamed(by names: [Alternative]) -> Bool {
        switch kind {
        case .name:
            names.isEmpty
                || names.contains { if case .name(let pattern) = $0 { matches(pattern) } else { false } }
        case .address(let address):
            address != nil
                && names.contains { if case .address(let bytes) = $0 { IPAddress(bytes) == address } else { false } }
        }
    }

    /// A star stands for the whole first label and for one label only (RFC 9525 §6.3).
    func matches(_ pattern: [UInt8]) -> Bool {
        guard case .name(let labels) = kind else { return false }
        let pattern = Self.labels(pattern)
        guard pattern.count == labels.count, let first = pattern.first else { return false }
        guard first == [0x2A] else { return pattern == labels }
        return labels.count > 2 && pattern.dropFirst() == labels.dropFirst()
    }

    private static func labels(_ name: [UInt8]) -> [[UInt8]] {
        let name = name.last == 0x2E ? name.dropLast() : name[...]
        return name.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 }
            .split(separator: 0x2E, omittingEmptySubsequences: false).map(Array.init)
    }
}
