import GatewayHTTP

/// Replaces `${NAME}`, `${NAME:-default}`, `${NAME:?message}` and `$$` in scalars that are already parsed, so that a
/// value from the environment can never become structure.
package struct Interpolation {
    private let environment: (String) -> String?
    private let unset: (String) -> String
    private let placeholder: String?
    private let files: [ConfigDocument.File]
    package private(set) var diagnostics: [ConfigDiagnostic] = []

    /// In a longer line the whole scalar is pointed at.
    static let longestSearched = 4096

    /// - Parameters:
    ///   - placeholder: Stands for a variable that is neither set nor has a default; nil reports it.
    ///   - unset: What the report says.
    package init(
        files: [ConfigDocument.File],
        placeholder: String? = nil,
        unset: @escaping (String) -> String = { UnreadSecrets().unset($0) },
        environment: @escaping (String) -> String?
    ) {
        self.files = files
        self.placeholder = placeholder
        self.environment = environment
        self.unset = unset
    }

    package mutating func apply(to node: inout ConfigNode, path: ConfigPath = .root) {
        switch node.content {
        case .scalar(let scalar):
            guard scalar.text.utf8.contains(UInt8(ascii: "$")) else { return }
            warnOfBareName(scalar, at: node.span, path: path)
            let before = diagnostics.count
            var expanded = expand(scalar, at: node.span, path: path)
            if diagnostics.count > before {
                // Not empty, so that nothing is reported as missing that is merely unknown.
                expanded = ConfigNode.Scalar(text: scalar.text, isQuoted: true)
            }
            node.content = .scalar(expanded)
        case .sequence(var nodes):
            for index in nodes.indices { apply(to: &nodes[index], path: path.appending(index)) }
            node.content = .sequence(nodes)
        case .mapping(var entries):
            for index in entries.indices {
                apply(to: &entries[index].value, path: path.appending(entries[index].key))
            }
            node.content = .mapping(entries)
        }
    }

    /// `$NAME` without braces stays as it is. The name is not repeated: it may be a password that begins with `$`.
    private mutating func warnOfBareName(_ scalar: ConfigNode.Scalar, at span: SourceSpan, path: ConfigPath) {
        guard scalar.text.hasPrefix("$"), Self.isName(String(scalar.text.dropFirst())) else { return }
        let advice = "\"$NAME\" is not replaced; write ${NAME} or {env: NAME}, or $$ for a dollar sign"
        diagnostics.append(ConfigDiagnostic(.warning, advice, at: span, path: path))
    }

    private mutating func expand(
        _ scalar: ConfigNode.Scalar,
        at span: SourceSpan,
        path: ConfigPath
    ) -> ConfigNode.Scalar {
        var expanded = scalar
        expanded.text = ""
        var rest = Substring(scalar.text)
        while let dollar = rest.firstIndex(of: "$") {
            expanded.text += rest[..<dollar]
            rest = rest[rest.index(after: dollar)...]
            if rest.first == "$" {
                expanded.text += "$"
                rest = rest.dropFirst()
                continue
            }
            guard rest.first == "{" else {
                expanded.text += "$"
                continue
            }
            guard let end = rest.firstIndex(of: "}") else {
                report("a \"${\" is never closed; write $$ for a dollar sign", "${", span, path)
                return expanded
            }
            let reference = rest[rest.index(after: rest.startIndex)..<end]
            rest = rest[rest.index(after: end)...]
            guard let value = value(of: reference, at: span, path: path) else { continue }
            expanded.text += value.text
            if value.isFromEnvironment { expanded.isInterpolated = true }
            if value.isUnset { expanded.isUnset = true }
            expanded.isReference = scalar.text == "${\(reference)}" && value.isFromEnvironment && !value.hasDefault
        }
        expanded.text += rest
        return expanded
    }

    private struct Value {
        let text: String
        let isFromEnvironment: Bool
        let hasDefault: Bool
        var isUnset = false
    }

    private mutating func value(of reference: Substring, at span: SourceSpan, path: ConfigPath) -> Value? {
        let name = String(reference.prefix { $0 != ":" })
        let rest = reference.dropFirst(name.count)
        guard Self.isName(name) else {
            report("\"${\" needs the name of an environment variable; write $$ for a dollar sign", "${", span, path)
            return nil
        }
        let found = environment(name)
        if rest.isEmpty {
            if let known = found.map(Self.known) ?? standIn(for: name) { return known }
            report(unset(name), "${\(name)", span, path)
            return nil
        }
        // As in a shell: with a colon, an empty value counts as none.
        let present = found.flatMap { $0.isEmpty ? nil : $0 }
        switch rest.prefix(2) {
        case ":-":
            if let present { return Value(text: present, isFromEnvironment: true, hasDefault: true) }
            return Value(text: String(rest.dropFirst(2)), isFromEnvironment: false, hasDefault: true)
        case ":?":
            if let known = present.map(Self.known) ?? standIn(for: name) { return known }
            let message = rest.dropFirst(2).isEmpty ? "not set" : String(rest.dropFirst(2))
            report("the environment variable \(name) is needed: \(message)", "${\(name)", span, path)
            return nil
        default:
            report("only \":-default\" or \":?message\" may follow ${\(name)", "${\(name)", span, path)
            return nil
        }
    }

    private static func known(_ text: String) -> Value {
        Value(text: text, isFromEnvironment: true, hasDefault: false)
    }

    /// Different for each variable: two that are not set are not the same.
    private func standIn(for name: String) -> Value? {
        placeholder.map {
            Value(text: "\($0)_\(name)", isFromEnvironment: true, hasDefault: false, isUnset: true)
        }
    }

    private static func isName(_ name: String) -> Bool {
        guard let first = name.utf8.first, !(0x30...0x39).contains(first) else { return false }
        return name.utf8.allSatisfy {
            switch $0 {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x5F: true
            default: false
            }
        }
    }

    /// Points at the reference itself when the scalar's first line holds it.
    private mutating func report(_ message: String, _ needle: String, _ span: SourceSpan, _ path: ConfigPath) {
        var span = span
        if files.indices.contains(span.file), files[span.file].lines.indices.contains(span.line - 1),
            files[span.file].lines[span.line - 1].utf8.count <= Self.longestSearched
        {
            let line = Array(files[span.file].lines[span.line - 1].unicodeScalars)
            let wanted = Array(needle.unicodeScalars)
            let starts = (span.column - 1)..<max(span.column, span.column - 1 + span.length)
            let found = starts.first {
                line.count >= $0 + wanted.count && line[$0..<($0 + wanted.count)].elementsEqual(wanted)
            }
            if let found {
                let end = line[found...].firstIndex(of: "}").map { $0 + 1 } ?? (found + wanted.count)
                span = SourceSpan(file: span.file, line: span.line, column: found + 1, length: end - found)
            }
        }
        diagnostics.append(ConfigDiagnostic(.error, message, at: span, path: path))
    }
}
