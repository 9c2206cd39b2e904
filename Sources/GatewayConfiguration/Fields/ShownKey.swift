/// What diagnostics may show of a key.
///
/// Where the space behind a colon is missing, `token:SECRET` is the key for YAML, and the secret a part of it.
package struct ShownKey {
    /// What stands before the first `:` or `=` that has something behind it.
    package let name: String
    /// That `:` or `=`, and what stands behind it.
    private let rest: String?

    /// The longest text, in bytes, that is taken for the name of a key.
    package static let longest = 40

    package init(_ key: String) {
        let scalars = key.unicodeScalars
        let end = scalars.firstIndex { $0 == ":" || $0 == "=" } ?? scalars.endIndex
        let rest = String(scalars[end...])
        // Base64 ends with "=": there is nothing behind the sign.
        let swallowsValue = rest.unicodeScalars.count > 1 && !rest.unicodeScalars.allSatisfy { $0 == "=" }
        name = swallowsValue ? String(scalars[..<end]) : key
        self.rest = swallowsValue ? rest : nil
    }

    package var text: String { sign.map { "\(name)\($0)…" } ?? name }

    /// How many columns of the key are shown; nil is all of them.
    var columns: Int? { sign.map { _ in name.unicodeScalars.count + 1 } }

    /// What to write in its place, when a value was swallowed.
    package var advice: String? {
        guard let sign, isName else { return nil }
        return sign == ":"
            ? "a space is missing behind \"\(name):\"" : "write \"\(name): \" in place of \"\(name)=\""
    }

    /// Spelt like the keys of the configuration, which hold no digits to speak of.
    package var isWord: Bool {
        name.utf8.count <= Self.longest
            && name.utf8.allSatisfy { (0x61...0x7A).contains($0) || $0 == 0x5F || $0 == 0x2D }
    }

    private var isName: Bool { name.utf8.count <= Self.longest && ConfigName.isValid(name) }

    private var sign: Unicode.Scalar? { rest?.unicodeScalars.first }
}
