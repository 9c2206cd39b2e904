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
