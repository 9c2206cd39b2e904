/// The names that people give to routes, credentials and clients.
package enum ConfigName {
    package static let rule =
        "a name has at most 64 letters, digits, \"-\", \"_\" and \".\", and begins with a letter or digit"

    /// Names go into paths, hosts, metric labels and log lines, so they are plain.
    package static func isValid(_ name: String) -> Bool {
        guard let first = name.utf8.first, first.isLetterOrDigit, name.utf8.count <= 64 else { return false }
        return name.utf8.allSatisfy { $0.isLetterOrDigit || $0 == 0x2D || $0 == 0x2E || $0 == 0x5F }
    }
}

extension UInt8 {
    fileprivate var isLetterOrDigit: Bool {
        switch self {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: false
        }
    }
}

extension ConfigContext {
    /// Says that nothing has this name. What cannot be one may be a secret that was written in its place: it is hidden.
    package func unknownName(
        _ scalar: ConfigNode.Scalar,
        of kind: String,
        at span: SourceSpan,
        or alternative: String = ""
    ) -> String {
        if scalar.isInterpolated || ConfigName.isValid(scalar.text) { return "no \(kind) is named \(scalar.shown)" }
        // A reference that leads nowhere has been reported with its line.
        if !scalar.text.contains("${") { hide(span) }
        return "expected the name of a \(kind)\(alternative)"
    }
}

extension ConfigFields {
    /// The entries of a mapping of named things; faulty names are reported and left out.
    package func named() -> [(name: String, entry: ConfigNode.Entry)] {
        context.recorder?.noteNames(of: path, plain: true)
        let entries = everyEntry()
        let size = context.document.size
        guard entries.count <= size.entries else {
            error(
                "more than \(size.entries) entries; \(ConfigurationSize.variable) in the environment raises the limit"
            )
            return []
        }
        return entries.compactMap { entry in
            guard ConfigName.isValid(entry.key) else {
                // Without a value it is hardly a name.
                let isStray = entry.value.isNull
                let advice = isStray ? ShownKey(entry.key).advice : nil
                let path = isStray ? path : path.appending(entry.key)
                context.error(advice ?? ConfigName.rule, at: entry.keySpan, path: path)
                return nil
            }
            return (entry.key, entry)
        }
    }

    /// The entries of a mapping of named things, without keys of such a thing that stand beside it: their indentation is wrong, which
    /// is reported once for each thing.
    ///
    /// - Parameters:
    ///   - kind: What is named, with its article: `a route`.
    ///   - keys: Keys that such a thing has.
    package func named(_ kind: String, keys: Set<String>) -> [(name: String, entry: ConfigNode.Entry)] {
        let all = named()
        var leftOut: Set<Int> = []
        var owner: Int?
        var reported: Int?
        for (index, (name, entry)) in all.enumerated() {
            if entry.value.isNull {
                owner = index
            } else if let owner, keys.contains(name) {
                if reported != owner {
                    reported = owner
                    let advice = "indent it below \"\(all[owner].name)\""
                    context.error("\"\(name)\" is a key of \(kind); \(advice)", at: entry.keySpan, path: path)
                }
                leftOut.insert(index)
                entry.value.keylessScalars.forEach(context.hide)
            } else {
                owner = nil
            }
        }
        return leftOut.isEmpty ? all : all.indices.filter { !leftOut.contains($0) }.map { all[$0] }
    }

    /// What stands behind a name; nil when it is no mapping, which is reported.
    package func named(_ entry: ConfigNode.Entry, path: ConfigPath) -> ConfigFields? {
        ConfigFields(
            entry.value,
            path: path,
            context: context,
            under: entry.keySpan,
            example: example(of: entry.key, as: KeyMeaning.anyName)
        )
    }

    /// A path of the file system, relative to the file that names it.
    package func filePath(_ key: String) -> String? {
        guard let path = string(key), let span = node(key)?.span else { return nil }
        return context.resolve(path, at: span)
    }

    package func requiredFilePath(_ key: String) -> String? {
        guard has(key) else {
            missing(key)
            return nil
        }
        return filePath(key)
    }
}

/// What diagnostics may show of a key.
///
/// Where the space behind a colon is missing, `token:SECRET` is the key for YAML, and the secret a part of it.
struct ShownKey {
    /// What stands before the first `:` or `=` that has something behind it.
    let name: String
    /// That `:` or `=`, and what stands behind it.
    private let rest: String?

    /// The longest text, in bytes, that is taken for the name of a key.
    static let longest = 40

    init(_ key: String) {
        let scalars = key.unicodeScalars
        let end = scalars.firstIndex { $0 == ":" || $0 == "=" } ?? scalars.endIndex
        let rest = String(scalars[end...])
        // Base64 ends with "=": there is nothing behind the sign.
        let swallowsValue = rest.unicodeScalars.count > 1 && !rest.unicodeScalars.allSatisfy { $0 == "=" }
        name = swallowsValue ? String(scalars[..<end]) : key
        self.rest = swallowsValue ? rest : nil
    }

    var text: String { sign.map { "\(name)\($0)…" } ?? name }

    /// How many columns of the key are shown; nil is all of them.
    var columns: Int? { sign.map { _ in name.unicodeScalars.count + 1 } }

    /// What to write in its place, when a value was swallowed.
    var advice: String? {
        guard let sign, isName else { return nil }
        return sign == ":"
            ? "a space is missing after \"\(name):\"" : "write \"\(name): \" in place of \"\(name)=\""
    }

    /// Spelt like the keys of the configuration, which hold no digits to speak of.
    var isWord: Bool {
        name.utf8.count <= Self.longest
            && name.utf8.allSatisfy { (0x61...0x7A).contains($0) || $0 == 0x5F || $0 == 0x2D }
    }

    private var isName: Bool { name.utf8.count <= Self.longest && ConfigName.isValid(name) }

    private var sign: Unicode.Scalar? { rest?.unicodeScalars.first }
}
