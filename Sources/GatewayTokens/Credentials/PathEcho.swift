/// Takes the path that a credential added out of URIs, so that they are those that a client may ask for.
struct PathEcho {
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
            guard CredentialLeakFilter.fold(CredentialLeakFilter.decode(Array(value[start..<index]))) == segment else {
                return nil
            }
        }
        return index
    }
}
