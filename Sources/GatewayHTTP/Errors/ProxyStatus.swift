/// Our member of `Proxy-Status` (RFC 9209).
package enum ProxyStatus {
    /// The gateway's name here and in the realm of its challenges. Its name in `Via` begins with it.
    package static let gateway = "authgateway"

    /// - Parameter nextHop: A host, with its port where that is not the scheme's; nil where no hop was asked, or it is not known which one failed.
    package static func member(nextHop: String?) -> String {
        nextHop.map { "\(gateway); next-hop=\(item($0))" } ?? gateway
    }

    /// A token where the rules for one allow it, else a string (RFC 8941 §3.3): addresses begin with a digit or a bracket.
    ///
    /// Nothing in a host has to be escaped.
    private static func item(_ host: String) -> String {
        let startsToken = host.utf8.first.map { $0 | 0x20 }.map { (0x61...0x7A).contains($0) } ?? false
        return startsToken ? host : "\"\(host)\""
    }
}
