import CLibYAML

/// libyaml's event parser over bytes in memory.
///
/// Owns the C parser and the bytes that it reads for as long as it lives; no pointer leaves it, which makes it safe.
@safe final class YAMLEventParser {
    private let parser: UnsafeMutablePointer<yaml_parser_t>
    private let input: UnsafeMutableBufferPointer<UInt8>

    /// nil when memory is exhausted.
    init?(_ bytes: [UInt8]) {
        unsafe parser = .allocate(capacity: 1)
        unsafe input = .allocate(capacity: max(1, bytes.count))
        _ = unsafe input.initialize(from: bytes)
        unsafe parser.initialize(to: yaml_parser_t())
        guard unsafe yaml_parser_initialize(parser) == 1 else { return nil }
        unsafe yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
        unsafe yaml_parser_set_input_string(parser, input.baseAddress, bytes.count)
    }

    deinit {
        unsafe yaml_parser_delete(parser)
        unsafe parser.deallocate()
        unsafe input.deallocate()
    }

    func next() throws(YAMLSyntaxError) -> YAMLEvent {
        var event = unsafe yaml_event_t()
        guard unsafe yaml_parser_parse(parser, &event) == 1 else { throw syntaxError() }
        defer { unsafe yaml_event_delete(&event) }
        return unsafe YAMLEvent(
            kind: Self.kind(of: event),
            start: Self.mark(event.start_mark),
            end: Self.mark(event.end_mark)
        )
    }

    private static func kind(of event: yaml_event_t) -> YAMLEvent.Kind {
        switch unsafe event.type {
        case YAML_STREAM_START_EVENT: return .streamStart
        case YAML_DOCUMENT_START_EVENT: return .documentStart
        case YAML_DOCUMENT_END_EVENT: return .documentEnd
        case YAML_ALIAS_EVENT:
            return unsafe .alias(string(event.data.alias.anchor) ?? "")
        case YAML_SCALAR_EVENT:
            let scalar = unsafe event.data.scalar
            let text = unsafe UnsafeBufferPointer(start: scalar.value, count: scalar.length)
            return unsafe .scalar(
                text: String(decoding: text, as: UTF8.self),
                isPlain: scalar.style == YAML_PLAIN_SCALAR_STYLE,
                properties: YAMLEvent.Properties(anchor: string(scalar.anchor), tag: string(scalar.tag))
            )
        case YAML_SEQUENCE_START_EVENT:
            let sequence = unsafe event.data.sequence_start
            return unsafe .sequenceStart(
                isFlow: sequence.style == YAML_FLOW_SEQUENCE_STYLE,
                properties: YAMLEvent.Properties(anchor: string(sequence.anchor), tag: string(sequence.tag))
            )
        case YAML_SEQUENCE_END_EVENT: return .sequenceEnd
        case YAML_MAPPING_START_EVENT:
            let mapping = unsafe event.data.mapping_start
            return unsafe .mappingStart(
                isFlow: mapping.style == YAML_FLOW_MAPPING_STYLE,
                properties: YAMLEvent.Properties(anchor: string(mapping.anchor), tag: string(mapping.tag))
            )
        case YAML_MAPPING_END_EVENT: return .mappingEnd
        default: return .streamEnd
        }
    }

    private func syntaxError() -> YAMLSyntaxError {
        let context = unsafe parser.pointee.context
        return unsafe YAMLSyntaxError(
            problem: parser.pointee.problem.map { unsafe String(cString: $0) } ?? "out of memory",
            at: Self.mark(parser.pointee.problem_mark),
            context: context.map { unsafe String(cString: $0) },
            contextAt: context == nil ? nil : Self.mark(parser.pointee.context_mark)
        )
    }

    private static func mark(_ mark: yaml_mark_t) -> YAMLEvent.Mark {
        YAMLEvent.Mark(line: mark.line + 1, column: mark.column + 1)
    }

    private static func string(_ text: UnsafeMutablePointer<yaml_char_t>?) -> String? {
        unsafe text.map { unsafe String(cString: $0) }
    }
}

/// One event of the parser, copied out of libyaml's memory.
struct YAMLEvent {
    enum Kind {
        case streamStart
        case streamEnd
        case documentStart
        case documentEnd
        case alias(String)
        case scalar(text: String, isPlain: Bool, properties: Properties)
        case sequenceStart(isFlow: Bool, properties: Properties)
        case sequenceEnd
        case mappingStart(isFlow: Bool, properties: Properties)
        case mappingEnd
    }

    struct Properties {
        let anchor: String?
        let tag: String?
    }

    /// Counted from 1, in characters.
    struct Mark: Equatable {
        let line: Int
        let column: Int
    }

    let kind: Kind
    let start: Mark
    let end: Mark
}

/// Why the parser cannot go on, in libyaml's words.
struct YAMLSyntaxError: Error {
    let problem: String
    let at: YAMLEvent.Mark
    let context: String?
    let contextAt: YAMLEvent.Mark?
}

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
        let advice = ShownKey(String(line)).advice ?? "expected \": \" after the key on this line"
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
        let advice = "a mapping on the same line as its key needs braces: \(key.name): {\(words[1]): …}"
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
            return """
                a ":" is not expected here; put the value in quotes, check the indentation, or put a space after the ":" of \
                the line above
                """
        case "block sequence entries are not allowed in this context":
            return "a \"- \" is not expected here; begin the list on a line of its own"
        case "did not find expected key": return "expected a key here; check the indentation and quotes of this line"
        case "did not find expected '-' indicator":
            return "expected \"- \" here; check the indentation of this line"
        case "could not find expected ':'": return "expected \":\" after the key on the line above"
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
