/// A piece of the configuration, with its place in the file.
///
/// Editing, merging, presets and the importers extend it, each privately with what only that file needs.
package struct ConfigNode: Hashable, Sendable {
    package indirect enum Content: Hashable, Sendable {
        case scalar(Scalar)
        case sequence([ConfigNode])
        /// In file order; keys are unique.
        case mapping([Entry])
    }

    package struct Scalar: Hashable, Sendable {
        package var text: String
        /// Written in quotes or as a block: always a string, never null or a number.
        package var isQuoted: Bool
        /// Part of it came from the environment, so the file itself does not hold it.
        package var isInterpolated: Bool
        /// The whole of it is one `${NAME}` without a default.
        package var isReference: Bool
        /// Part of it stands for a variable that is not set.
        var isUnset = false

        package init(text: String, isQuoted: Bool, isInterpolated: Bool = false, isReference: Bool = false) {
            self.text = text
            self.isQuoted = isQuoted
            self.isInterpolated = isInterpolated
            self.isReference = isReference
        }

        /// The text for a diagnostic; what came from the environment is not repeated, it may be a secret.
        package var shown: String {
            isInterpolated ? "a value from the environment" : "\"\(SourceLine.printable(text))\""
        }

        package var isNull: Bool { !isQuoted && (text.isEmpty || text == "~" || text == "null") }
    }

    package struct Entry: Hashable, Sendable {
        package let key: String
        package let keySpan: SourceSpan
        package var value: ConfigNode

        package init(key: String, keySpan: SourceSpan, value: ConfigNode) {
            self.key = key
            self.keySpan = keySpan
            self.value = value
        }
    }

    package var content: Content
    package var span: SourceSpan

    package init(_ content: Content, at span: SourceSpan) {
        self.content = content
        self.span = span
    }

    /// What it is, for "expected a mapping, found a sequence".
    package var kindName: String {
        switch content {
        case .scalar(let scalar): scalar.isNull ? "nothing" : "a scalar"
        case .sequence: "a sequence"
        case .mapping: "a mapping"
        }
    }

    package var isNull: Bool {
        if case .scalar(let scalar) = content { return scalar.isNull }
        return false
    }

    var isMapping: Bool {
        if case .mapping = content { return true }
        return false
    }

    func entry(_ key: String) -> Entry? {
        guard case .mapping(let entries) = content else { return nil }
        return entries.first { $0.key == key }
    }

    package func value(of key: String) -> ConfigNode? { entry(key)?.value }

    /// What the mapping at a key holds; nothing when there is none.
    package func entries(of key: String) -> [Entry] {
        guard case .mapping(let entries)? = value(of: key)?.content else { return [] }
        return entries
    }

    /// The scalars that no key says anything about: where a mapping is expected, each may be a secret.
    package var keylessScalars: [ConfigNode] {
        switch content {
        case .scalar: [self]
        case .sequence(let nodes): nodes.flatMap(\.keylessScalars)
        case .mapping: []
        }
    }

    /// The variables that secrets are read from with `{env: NAME}`.
    package var secretVariables: Set<String> {
        switch content {
        case .scalar: return []
        case .sequence(let nodes): return nodes.reduce(into: []) { $0.formUnion($1.secretVariables) }
        case .mapping(let entries):
            if entries.count == 1, entries[0].key == "env", case .scalar(let name) = entries[0].value.content {
                return [name.text]
            }
            return entries.reduce(into: []) { $0.formUnion($1.value.secretVariables) }
        }
    }

    /// Where a variable that is not set has a value that only stands for it.
    var unsetSpans: [SourceSpan] {
        switch content {
        case .scalar(let scalar): scalar.isUnset ? [span] : []
        case .sequence(let nodes): nodes.flatMap(\.unsetSpans)
        case .mapping(let entries): entries.flatMap(\.value.unsetSpans)
        }
    }

    /// Unambiguous, and without places: equal for nodes that mean the same. May hold secrets.
    package var canonicalText: String {
        switch content {
        case .scalar(let scalar): "\(scalar.isQuoted ? "s" : "p")\(scalar.text.utf8.count):\(scalar.text)"
        case .sequence(let nodes): "[\(nodes.map(\.canonicalText).joined())]"
        case .mapping(let entries):
            "{\(entries.map { "\($0.key.utf8.count):\($0.key)\($0.value.canonicalText)" }.sorted().joined())}"
        }
    }
}

/// The configuration after loading: one tree, whatever number of files it came from.
package struct ConfigDocument: Hashable, Sendable {
    package struct File: Hashable, Sendable {
        /// As diagnostics print it.
        package let name: String
        /// Absolute; empty for a text that is in no file.
        package let path: String
        package let lines: [String]

        package init(name: String, path: String, lines: [String]) {
            self.name = name
            self.path = path
            self.lines = lines
        }

        /// The folder that relative paths of this file are relative to.
        package var directory: String { Self.folder(of: path) }

        /// Empty for a path without a slash.
        package static func folder(of path: String) -> String {
            guard let slash = path.lastIndex(of: "/") else { return "" }
            return slash == path.startIndex ? "/" : String(path[..<slash])
        }
    }

    package let files: [File]
    package let root: ConfigNode
    package let size: ConfigurationSize

    package init(files: [File], root: ConfigNode, size: ConfigurationSize = ConfigurationSize()) {
        self.files = files
        self.root = root
        self.size = size
    }
}

/// Where something stands in a configuration file. Lines and columns start at 1; columns count Unicode scalars.
package struct SourceSpan: Hashable, Sendable {
    /// Index into ``ConfigDocument/files``.
    package var file: Int
    package var line: Int
    package var column: Int
    /// How many columns to underline; at least 1, never past the end of the line.
    package var length: Int

    package init(file: Int, line: Int, column: Int, length: Int = 1) {
        self.file = file
        self.line = line
        self.column = column
        self.length = max(1, length)
    }
}

extension SourceSpan: Comparable {
    package static func < (lhs: Self, rhs: Self) -> Bool {
        (lhs.file, lhs.line, lhs.column) < (rhs.file, rhs.line, rhs.column)
    }
}

/// Where in the document something stands: `routes.box.auth`, `listeners.proxy[0].tls`.
package struct ConfigPath: Hashable, Sendable, CustomStringConvertible {
    package private(set) var description: String

    package static let root = ConfigPath(description: "")

    package func appending(_ key: String) -> ConfigPath {
        let key = ShownKey(key).text
        return ConfigPath(description: description.isEmpty ? key : "\(description).\(key)")
    }

    package func appending(_ index: Int) -> ConfigPath { ConfigPath(description: "\(description)[\(index)]") }
}
