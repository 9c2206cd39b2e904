extension YAMLSyntaxError {
    /// The error in plain words, with what usually causes it.
    func diagnostic(in text: SourceText) -> ConfigDiagnostic {
        let character = character(at: at, in: text)
        let span = text.span(line: at.line, column: at.column, length: 1)
        if character == "{", isAfterDollar(in: text) {
            let advice = "inside {…} and […] a value with ${NAME} must be in quotes"
            return ConfigDiagnostic(.error, advice, at: span)
        }
        return keyWithoutColon(in: text) ?? mappingWithoutBraces(in: text)
            ?? ConfigDiagnostic(.error, message(character), at: span, related: related(in: text))
    }

    /// That a key has no `: ` behind it is noticed after its line, or at the end of the file.
    private func keyWithoutColon(in text: SourceText) -> ConfigDiagnostic? {
        guard problem == "could not find expected ':'", let contextAt,
            text.lines.indices.contains(contextAt.line - 1)
        else { return nil }
        let line = text.lines[contextAt.line - 1].unicodeScalars.dropFirst(contextAt.column - 1)
        let advice = ShownKey(String(line)).advice ?? "expected \": \" behind the key in this line"
        let span = text.span(line: contextAt.line, column: contextAt.column, length: Int.max)
        return ConfigDiagnostic(.error, advice, at: span)
    }

    /// `client_secret: env: NAME`: a mapping behind a key, in its line.
    private func mappingWithoutBraces(in text: SourceText) -> ConfigDiagnostic? {
        guard ["mapping values are not allowed in this context", "did not find expected ',' or '}'"].contains(problem),
            character(at: at, in: text) == ":", text.lines.indices.contains(at.line - 1)
        else { return nil }
        // Keys are short, and a line can be a mebibyte long.
        let before = text.lines[at.line - 1].unicodeScalars.prefix(at.column - 1).suffix(2 * ShownKey.longest + 8)
        let words = String(before).split(separator: " ").suffix(2).map(String.init)
        guard words.count == 2, words[0].hasSuffix(":"), Self.firstKeys.contains(words[1]) else { return nil }
        let key = ShownKey(String(words[0].dropLast().drop { "{,[".contains($0) }))
        guard key.isWord, !key.name.isEmpty else { return nil }
        let advice = "a mapping behind a key in its line needs braces: \(key.name): {\(words[1]): …}"
        return ConfigDiagnostic(.error, advice, at: text.span(line: at.line, column: at.column, length: 1))
    }

    /// With which such mappings begin. Any other word could be a part of a secret.
    private static let firstKeys: Set = [
        "env", "file", "exec", "systemd_credential", "strategy", "credential", "preset",
    ]

    private func message(_ character: Unicode.Scalar?) -> String {
        switch problem {
        case "found character that cannot start any token":
            if character == "\t" { return "a tab cannot indent; use spaces" }
            return "a value cannot begin with \(character.map { "\"\($0)\"" } ?? "this"); put it in quotes"
        case "found a tab character that violates indentation",
            "found a tab character where an indentation space is expected":
            return "a tab cannot indent; use spaces"
        case "mapping values are not allowed in this context":
            return "a \":\" is not expected here; put the value in quotes, or check the indentation"
        case "block sequence entries are not allowed in this context":
            return "a \"- \" is not expected here; begin the list on a line of its own"
        case "did not find expected key": return "expected a key here; check the indentation and quotes of this line"
        case "did not find expected '-' indicator":
            return "expected \"- \" here; check the indentation of this line"
        case "could not find expected ':'": return "expected \":\" after the key in the line above"
        case "did not find expected ',' or ']'": return "expected \",\" or \"]\" here"
        case "did not find expected ',' or '}'": return "expected \",\" or \"}\" here"
        case "found unexpected end of stream", "found unexpected document indicator":
            return "the file ends inside quotes; a closing quote is missing"
        case "found unknown escape character":
            return "unknown escape in double quotes; write \\\\ for a backslash, or use single quotes"
        case "did not find expected <document start>":
            return "the document has ended before this line; check its indentation"
        case "did not find expected node content": return "expected a value here"
        default: return "not valid YAML: \(problem)"
        }
    }

    private func related(in text: SourceText) -> ConfigDiagnostic.Related? {
        guard let context, let contextAt, contextAt.line != at.line || contextAt.column != at.column else { return nil }
        let span = text.span(line: contextAt.line, column: contextAt.column, length: 1)
        return ConfigDiagnostic.Related(Self.note(context), at: span)
    }

    private static func note(_ context: String) -> String {
        switch context {
        case "while parsing a block mapping", "while parsing a flow mapping": "in the mapping that begins here"
        case "while parsing a block collection", "while parsing a flow sequence": "in the list that begins here"
        case "while scanning a quoted scalar": "the quotes open here"
        case "while scanning a simple key": "the key begins here"
        default: context
        }
    }

    private func isAfterDollar(in text: SourceText) -> Bool {
        at.column > 1 && character(at: YAMLEvent.Mark(line: at.line, column: at.column - 1), in: text) == "$"
    }

    private func character(at mark: YAMLEvent.Mark, in text: SourceText) -> Unicode.Scalar? {
        guard text.lines.indices.contains(mark.line - 1) else { return nil }
        return text.lines[mark.line - 1].unicodeScalars.dropFirst(mark.column - 1).first
    }
}
