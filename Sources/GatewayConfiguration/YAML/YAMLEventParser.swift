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
            problem: parser.pointee.problem.map { unsafe String(cString: $0) } ?? "memory is exhausted",
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
