/// Scheme, host and port: where a connection goes and what a credential is bound to.
package struct Origin: Hashable, Sendable, CustomStringConvertible {
    package enum Scheme: String, Sendable {
        case http
        case https

        package var defaultPort: Int { self == .https ? 443 : 80 }
    }

    package let scheme: Scheme
    /// Lower case; an IPv6 address without its brackets, in one spelling; a name without the dot of the root (RFC 6066 section 3).
    package let host: String
    package let port: Int
    /// With that dot, where the name has it: a resolver then tries no search domain (RFC 1034 section 3.1).
    package let lookupName: String

    package init(scheme: Scheme, host: String, port: Int) {
        self.scheme = scheme
        let name = IPAddress.hostName(host.lowercased())
        self.host = Self.unrooted(name)
        self.port = port
        lookupName = name
    }

    /// A name without the dot of the root.
    package static func unrooted(_ name: String) -> String {
        name.utf8.count > 1 && name.hasSuffix(".") && !name.contains(":") ? String(name.dropLast()) : name
    }

    package static func == (one: Origin, other: Origin) -> Bool {
        one.port == other.port && one.scheme == other.scheme && one.host == other.host
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(host)
        hasher.combine(port)
    }

    /// Reads `host`, `host:port`, `[v6]` or `[v6]:port`; nil when it is anything else.
    package init?(scheme: Scheme, authority: String) {
        let bytes = Array(authority.utf8)
        let host: String
        var rest: ArraySlice<UInt8>
        if bytes.first == UInt8(ascii: "[") {
            guard let end = bytes.firstIndex(of: UInt8(ascii: "]")), Authority.mayBeIPv6(bytes.span, 1..<end) else {
                return nil
            }
            host = String(decoding: bytes[1..<end], as: UTF8.self)
            rest = bytes[(end + 1)...]
        } else {
            let name = bytes.prefix { $0 != UInt8(ascii: ":") }
            guard !name.isEmpty, name.count <= 255, name.allSatisfy({ $0.isHostByte }), !Self.hasEmptyLabel(name)
            else { return nil }
            host = String(decoding: name, as: UTF8.self)
            rest = bytes[name.endIndex...]
        }
        var port = scheme.defaultPort
        if rest.first == UInt8(ascii: ":") {
            rest = rest.dropFirst()
            guard !rest.isEmpty, rest.count <= 5, rest.allSatisfy({ (0x30...0x39).contains($0) }),
                let number = Int(String(decoding: rest, as: UTF8.self)), (1...65535).contains(number)
            else { return nil }
            port = number
        } else if !rest.isEmpty {
            return nil
        }
        self.init(scheme: scheme, host: host, port: port)
    }

    /// The root, behind the last dot, is no label of the others (RFC 1034 section 3.1).
    private static func hasEmptyLabel(_ name: ArraySlice<UInt8>) -> Bool {
        name.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).dropLast().contains(where: \.isEmpty)
    }

    package var isLoopback: Bool {
        host == "localhost" || host.hasSuffix(".localhost") || isLoopbackAddress
    }

    /// The host is an address literal of this machine: 127.0.0.0/8 or ::1.
    package var isLoopbackAddress: Bool { host == "::1" || isIPv4 && host.hasPrefix("127.") }

    package var isIPv4: Bool {
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        // Some read a leading zero as octal.
        return parts.count == 4 && parts.allSatisfy { part in UInt8(part).map { String($0) == part } ?? false }
    }

    /// An address, or a name of this machine, with the dot of the root. A resolver takes it for a name, which may lead elsewhere.
    var isRootedAddress: Bool { lookupName != host && (isAddress || isLoopback) }

    /// The host is an address literal, not a name.
    package var isAddress: Bool { isIPv4 || host.contains(":") }

    /// The authority as a `Host` field carries it: without the default port.
    package var authority: String { port == scheme.defaultPort ? Self.urlHost(host) : hostAndPort }

    /// The authority with its port, also where that is the default.
    package var hostAndPort: String { Self.hostAndPort(host, port) }

    package static func hostAndPort(_ host: String, _ port: Int) -> String { "\(urlHost(host)):\(port)" }

    /// A host as a URL has it: an IPv6 address stands in brackets (RFC 3986 section 3.2.2).
    package static func urlHost(_ host: String) -> String { host.contains(":") ? "[\(host)]" : host }

    package var description: String { "\(scheme.rawValue)://\(authority)" }
}

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
            hostEnd = bytes.first(0x3A, in: range)
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
            number = number &* 10 &+ Int(bytes[index] &- 0x30)
            index &+= 1
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

/// The gateway as a client sees it.
package struct GatewayURL: Hashable, Sendable {
    /// nil where a request names no host.
    package let origin: Origin?
    /// The path before the paths of routes: empty, or `/gateway` without a slash at the end.
    package let path: [UInt8]

    package init(origin: Origin?, path: [UInt8] = []) {
        self.origin = origin
        self.path = path
    }

    package var text: String { (origin?.description ?? "") + String(decoding: path, as: UTF8.self) }
}
