import GatewayHTTP

/// A reference to a resource in its parts (RFC 3986 section 4.1).
struct URIReference {
    enum Form: Equatable {
        /// `https://host/path`, with the scheme in lower case.
        case absolute(scheme: String, authority: String)
        /// `//host/path`
        case network(authority: String)
        /// `/path`
        case absolutePath
        /// `path`, `../path`
        case relativePath
        /// Nothing but a query, a fragment, or neither.
        case sameDocument
    }

    let form: Form
    let path: [UInt8]
    /// Query and fragment, each with its delimiter.
    let tail: [UInt8]

    /// - Returns: nil for what is no reference, or one without an authority where its scheme needs one.
    init?(_ text: [UInt8]) {
        guard !text.contains(where: Self.isForbidden) else { return nil }
        let tailStart = text.firstIndex { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") } ?? text.endIndex
        tail = Array(text[tailStart...])
        var rest = text[..<tailStart]
        var scheme: String?
        if let colon = rest.firstIndex(of: UInt8(ascii: ":")), !rest[..<colon].contains(UInt8(ascii: "/")) {
            guard Self.isScheme(rest[..<colon]) else { return nil }
            scheme = String(decoding: rest[..<colon], as: UTF8.self).lowercased()
            rest = rest[(colon + 1)...]
        }
        guard rest.starts(with: "//".utf8) else {
            guard scheme == nil else { return nil }
            path = Array(rest)
            form = path.isEmpty ? .sameDocument : path[0] == UInt8(ascii: "/") ? .absolutePath : .relativePath
            return
        }
        rest = rest.dropFirst(2)
        let pathStart = rest.firstIndex(of: UInt8(ascii: "/")) ?? rest.endIndex
        let authority = String(decoding: rest[..<pathStart], as: UTF8.self)
        path = Array(rest[pathStart...])
        form = scheme.map { .absolute(scheme: $0, authority: authority) } ?? .network(authority: authority)
    }

    /// The server and the path that an absolute URL or path names; nil for any other reference, and with user information.
    ///
    /// - Parameter own: The server that reads it.
    func target(at own: Origin) -> (origin: Origin, path: [UInt8])? {
        switch form {
        case .absolute(let scheme, let authority):
            guard let scheme = Origin.Scheme(rawValue: scheme), let origin = Self.origin(scheme, authority) else {
                return nil
            }
            return (origin, path.isEmpty ? [Self.slash] : path)
        case .absolutePath: return (own, path)
        case .network, .relativePath, .sameDocument: return nil
        }
    }

    /// The server and the path that it leads to from another URL; nil where it stays there, or names what the gateway cannot reach.
    ///
    /// - Parameters:
    ///   - base: The server of that URL.
    ///   - path: The path of that URL, begins with `/`. Dot segments stay in what is returned.
    func resolved(against base: Origin, _ path: @autoclosure () -> [UInt8]) -> (origin: Origin, path: [UInt8])? {
        switch form {
        case .absolute, .absolutePath: target(at: base)
        case .network(let authority):
            Self.origin(base.scheme, authority).map { ($0, self.path.isEmpty ? [Self.slash] : self.path) }
        case .relativePath: (base, Self.directory(of: path()) + self.path)
        case .sameDocument: nil
        }
    }

    /// Up to the last slash, which is where a relative reference begins.
    private static func directory(of path: [UInt8]) -> [UInt8] {
        path.lastIndex(of: slash).map { Array(path[...$0]) } ?? [slash]
    }

    /// Nothing for one with user information: what it names is not what the gateway serves.
    static func origin(_ scheme: Origin.Scheme, _ authority: String) -> Origin? {
        Origin(scheme: scheme, authority: authority.hasSuffix(":") ? String(authority.dropLast()) : authority)
    }

    /// What no part of a URI has. Bytes above ASCII are let through: many servers send them.
    private static func isForbidden(_ byte: UInt8) -> Bool {
        byte <= 0x20 || byte == 0x7F || "\"<>\\".utf8.contains(byte)
    }

    private static func isScheme(_ text: ArraySlice<UInt8>) -> Bool {
        guard let first = text.first, (0x61...0x7A).contains(first.asciiLowercased) else { return false }
        return text.allSatisfy { $0.isDigit || (0x61...0x7A).contains($0.asciiLowercased) || "+-.".utf8.contains($0) }
    }

    // MARK: Paths

    /// - Parameter path: Begins with `/`.
    static func hasDotSegments(_ path: [UInt8]) -> Bool {
        path.split(separator: slash).contains { $0.elementsEqual(".".utf8) || $0.elementsEqual("..".utf8) }
    }

    /// The path that clients and servers take it for (RFC 3986 section 5.2.4).
    ///
    /// - Parameter path: Begins with `/`.
    static func withoutDotSegments(_ path: [UInt8]) -> [UInt8] {
        guard hasDotSegments(path) else { return path }
        var kept: [ArraySlice<UInt8>] = []
        let segments = path.dropFirst().split(separator: slash, omittingEmptySubsequences: false)
        for (index, segment) in segments.enumerated() {
            let isUp = segment.elementsEqual("..".utf8)
            guard isUp || segment.elementsEqual(".".utf8) else {
                kept.append(segment)
                continue
            }
            if isUp { _ = kept.popLast() }
            if index == segments.count - 1 { kept.append([]) }
        }
        return kept.flatMap { [slash] + $0 }
    }

    /// What of a path follows a prefix that ends where a segment ends; nil where it begins otherwise.
    static func rest(of path: [UInt8], behind prefix: [UInt8]) -> [UInt8]? {
        guard path.starts(with: prefix) else { return nil }
        let rest = Array(path.dropFirst(prefix.count))
        return rest.isEmpty || rest[0] == slash ? rest : nil
    }

    private static let slash = UInt8(ascii: "/")
}
