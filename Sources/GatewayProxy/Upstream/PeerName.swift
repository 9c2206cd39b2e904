import NIOCore
import NIOSSL

/// A certificate that does not name the server we meant.
struct PeerNameMismatch: Error {}

/// The name that an upstream's certificate must carry.
///
/// NIOSSL also accepts a certificate for the address that was dialled. An attacker who can forge DNS answers can have
/// such a certificate for an address of their own. Where a name is expected, only a name is accepted (RFC 9525 §6).
struct PeerName {
    private let labels: [[UInt8]]

    init(_ name: String) { labels = Self.labels(Array(name.utf8)) }

    func check(_ certificate: NIOSSLCertificate) throws(PeerNameMismatch) {
        let names = certificate._subjectAlternativeNames()
        // Without any alternative name NIOSSL has compared the common name, and never an address.
        guard !names.isEmpty else { return }
        for name in names where name.nameType == .dnsName && matches(Array(name.contents)) { return }
        throw PeerNameMismatch()
    }

    /// A star stands for the whole first label and for one label only (RFC 9525 §6.3).
    func matches(_ pattern: [UInt8]) -> Bool {
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
