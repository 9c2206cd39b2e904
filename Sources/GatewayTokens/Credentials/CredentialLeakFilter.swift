package import GatewayHTTP

/// Keeps the credential of a target out of fields that repeat URIs (``FieldKind/uriReference``).
///
/// An upstream that redirects often repeats the path and the query that it was sent. It may decode them before, or encode
/// them again. So everything is compared decoded, without regard to case.
package struct CredentialLeakFilter: Sendable {
    private enum Place {
        /// The parameter with this name.
        case parameter(name: [UInt8])
        /// These segments, one after the other.
        case path([[UInt8]])
    }

    /// Folded, as ``HiddenSecret/fold(_:)`` does it; so is what a place holds.
    private let finds: [(place: Place, secret: SecretBytes)]

    /// nil where no target holds the credential.
    package init?(of injection: Injection) {
        var finds: [(place: Place, secret: SecretBytes)] = []
        if let parameter = injection.query {
            finds.append((.parameter(name: HiddenSecret.fold(Array(parameter.name.utf8))), Self.fold(parameter.value)))
        }
        if let path = injection.path {
            let segments = path.value.withValue { $0.utf8.split(separator: UInt8(ascii: "/")).map(Array.init) }
            finds.append((.path(segments.map { HiddenSecret.fold(Self.decode($0)) }), Self.fold(path.secret)))
        }
        guard !finds.isEmpty else { return nil }
        self.finds = finds
    }

    private static func fold(_ secret: Secret) -> SecretBytes {
        SecretBytes(secret.withValue { HiddenSecret.fold(Array($0.utf8)) })
    }

    /// Removes what was injected. A field that has the secret elsewhere is dropped.
    package func rewrite(_ value: [UInt8]) -> FieldRewrite {
        var rest = value
        for find in finds {
            let isClean = find.secret.withValue { secret in
                guard Self.repeats(secret, in: rest) else { return true }
                switch find.place {
                case .parameter(let name): rest = Self.removing(parameter: name, secret, from: rest)
                case .path(let segments):
                    guard let removed = PathEcho(segments).removed(from: rest) else { return false }
                    rest = removed
                }
                return !rest.isEmpty && !Self.repeats(secret, in: rest)
            }
            guard isClean else { return .dropped }
        }
        return rest == value ? .unchanged : .replaced(rest)
    }

    // MARK: Anywhere in the value

    /// More layers of encoding are suspicious: the field is dropped.
    static let maximumDecodings = 8

    private static func repeats(_ secret: [UInt8], in value: [UInt8]) -> Bool {
        var text = value
        for _ in 0..<maximumDecodings {
            if contains(secret, in: HiddenSecret.fold(text)) { return true }
            let decoded = decode(text)
            guard decoded.count < text.count else { return false }
            text = decoded
        }
        return true
    }

    private static func contains(_ word: [UInt8], in text: [UInt8]) -> Bool {
        guard word.count <= text.count else { return false }
        return (0...text.count - word.count).contains { text[$0...].starts(with: word) }
    }

    fileprivate static func decode(_ text: [UInt8]) -> [UInt8] {
        PercentEncoding.decodeLeniently(text.span, 0..<text.count)
    }

    // MARK: The parameter

    /// A piece of the value, with the byte that stands before it.
    private struct Segment {
        /// nil at the beginning of the value.
        var lead: UInt8?
        var content: [UInt8] = []

        var bytes: [UInt8] { (lead.map { [$0] } ?? []) + content }
        var isBehindSeparator: Bool { lead == UInt8(ascii: "&") || lead == UInt8(ascii: ";") }
        var mayBeParameter: Bool {
            isBehindSeparator || lead == UInt8(ascii: "?") || lead == UInt8(ascii: "#")
        }
    }

    /// What ends a parameter: a delimiter of the URI, or of the field that the URI stands in.
    private static let ends: Set<UInt8> = Set("?&;#<>\"' \t".utf8)

    private static func segments(_ value: [UInt8]) -> [Segment] {
        var segments = [Segment()]
        for byte in value {
            if ends.contains(byte) {
                segments.append(Segment(lead: byte))
            } else {
                segments[segments.count - 1].content.append(byte)
            }
        }
        return segments
    }

    private static func removing(parameter name: [UInt8], _ secret: [UInt8], from value: [UInt8]) -> [UInt8] {
        var segments = Self.segments(value)
        var rest: [UInt8] = []
        for index in segments.indices {
            let segment = segments[index]
            guard segment.mayBeParameter, isInjected(segment.content, name, secret) else {
                rest += segment.bytes
                continue
            }
            // The question mark stays if another parameter follows.
            let next = index + 1
            if !segment.isBehindSeparator, next < segments.count, segments[next].isBehindSeparator {
                segments[next].lead = segment.lead
            }
        }
        return rest
    }

    private static func isInjected(_ parameter: [UInt8], _ name: [UInt8], _ secret: [UInt8]) -> Bool {
        guard let equals = parameter.firstIndex(of: UInt8(ascii: "=")) else { return false }
        return HiddenSecret.fold(decode(Array(parameter[..<equals]))) == name
            && HiddenSecret.fold(decode(Array(parameter[(equals + 1)...]))) == secret
    }
}

/// Takes the path that a credential added out of URIs, so that they are those that a client may ask for.
private struct PathEcho {
    /// Decoded and folded, as ``CredentialLeakFilter`` does it.
    private let segments: [[UInt8]]

    init(_ segments: [[UInt8]]) { self.segments = segments }

    /// What ends a segment: a delimiter of the URI, or of the field that the URI stands in.
    private static let ends: Set<UInt8> = Set("/?#<>\"' \t;,".utf8)
    private static let slash = UInt8(ascii: "/")
    /// What browsers take for a second slash, or leave out before one.
    private static let slashes: Set<UInt8> = Set("/\\\t".utf8)

    /// The value without these segments, wherever all of them follow each other. nil where the rest would name a server: two
    /// slashes would stand where the path begins.
    func removed(from value: [UInt8]) -> [UInt8]? {
        var rest: [UInt8] = []
        var index = 0
        while index < value.count {
            guard value[index] == Self.slash, let end = end(of: value, from: index) else {
                rest.append(value[index])
                index += 1
                continue
            }
            let follows = value[end...]
            if follows.first == Self.slash, let second = follows.dropFirst().first, Self.slashes.contains(second) {
                return nil
            }
            // A path that had nothing else is the root.
            if follows.first != Self.slash, !Self.isName(rest.last) { rest.append(Self.slash) }
            index = end
        }
        return rest
    }

    /// Whether what stands before is a host or a path, and not the beginning of the reference.
    private static func isName(_ byte: UInt8?) -> Bool {
        byte.map { !ends.contains($0) && $0 != UInt8(ascii: "=") } ?? false
    }

    /// Where the segments that begin with the slash at `index` end; nil where they are others.
    private func end(of value: [UInt8], from index: Int) -> Int? {
        var index = index
        for segment in segments {
            guard index < value.count, value[index] == Self.slash else { return nil }
            let start = index + 1
            index = value[start...].firstIndex(where: Self.ends.contains) ?? value.count
            guard HiddenSecret.fold(CredentialLeakFilter.decode(Array(value[start..<index]))) == segment else {
                return nil
            }
        }
        return index
    }
}
