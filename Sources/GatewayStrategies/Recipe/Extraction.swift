import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Where in an answer something stands.
struct Extraction: Hashable, Sendable {
    enum Source: Hashable, Sendable {
        case json(JSONPointer)
        case header(String)
        case cookie(String)
        /// The whole body.
        case body
    }

    static let limitBytes = 16 << 10

    let source: Source
    /// Takes only the matching part of the source.
    let pattern: TextPattern?
    /// Without it an answer is broken.
    let isOptional: Bool

    /// Reads `/json/pointer`, `{json: /pointer}`, `{header: NAME}`, `{cookie: NAME}`, `{body: true}` or
    /// `{regex: PATTERN}`; the last may stand beside `header`.
    init?(_ key: String, in fields: ConfigFields) {
        if case .scalar? = fields.node(key)?.content, let scalar = fields.scalar(key)?.scalar {
            guard let pointer = JSONPointer(scalar.text) else {
                fields.error(key, "expected a JSON pointer such as /data/token (RFC 6901), or a mapping")
                return nil
            }
            self.init(source: .json(pointer))
            return
        }
        guard let own = fields.fields(key) else { return nil }
        own.explain(Self.meanings)
        defer { own.refuseUnknownKeys() }
        let errors = fields.context.errorCount
        let isOptional = own.bool("optional") ?? false
        let pattern = Self.pattern(in: own)
        let kinds = ["json", "header", "cookie", "body"].filter { own.has($0) }
        let source = Self.source(kinds, hasPattern: own.has("regex"), in: own)
        guard let source, fields.context.errorCount == errors else { return nil }
        self.init(source: source, pattern: pattern, isOptional: isOptional)
    }

    init(source: Source, pattern: TextPattern? = nil, isOptional: Bool = false) {
        self.source = source
        self.pattern = pattern
        self.isOptional = isOptional
    }

    private static func source(_ kinds: [String], hasPattern: Bool, in fields: ConfigFields) -> Source? {
        switch kinds {
        case [] where hasPattern: return .body
        case ["json"]:
            guard let text = fields.string("json") else { return nil }
            guard let pointer = JSONPointer(text) else {
                fields.error("json", "expected a JSON pointer such as /data/token (RFC 6901)")
                return nil
            }
            return .json(pointer)
        case ["header"]:
            guard let name = fields.string("header") else { return nil }
            guard FieldSyntax.isToken(name) else {
                fields.error("header", "not a valid header field name")
                return nil
            }
            return .header(name)
        case ["cookie"]: return fields.string("cookie").map { .cookie($0) }
        case ["body"]:
            if fields.bool("body") == false { fields.error("body", "can only be true") }
            return .body
        default:
            if !kinds.isEmpty || fields.unknownKeys.isEmpty {
                fields.error("an output comes from exactly one of json, header, cookie, body and regex")
            }
            return nil
        }
    }

    private static func pattern(in fields: ConfigFields) -> TextPattern? {
        guard let text = fields.string("regex") else { return nil }
        return fields.usable("regex", try TextPattern(text))
    }

    /// nil when the answer does not hold it.
    ///
    /// - Parameters:
    ///   - url: What was asked.
    ///   - now: When the answer came.
    func value(
        in reply: TokenReply,
        json: JSONValue?,
        from url: AuthorityURL?,
        at now: UnixTime
    ) throws(BrokenAnswer) -> Secret? {
        if isDamaged(in: json) {
            throw BrokenAnswer(reason: "\(place) is given twice with different values, or is not a valid number")
        }
        guard let found = found(in: reply, json, from: url, at: now) else { return nil }
        let bytes: [UInt8]
        if let pattern {
            guard let match = pattern.firstMatch(in: found) else { return nil }
            bytes = source == .body && reply.isHTML ? HTMLText.decoded(match) : match
        } else {
            bytes = found
        }
        guard !bytes.isEmpty else { return nil }
        guard bytes.count <= Self.limitBytes, let text = String(validating: bytes, as: UTF8.self),
            text.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0 != "\u{7F}" && $0 != "\u{FFFD}" })
        else { throw BrokenAnswer(reason: "\(place) is too long, is not UTF-8, or contains control characters") }
        return Secret(text)
    }

    /// Whether the answer holds it, and there is no telling what the authorization server meant.
    func isDamaged(in json: JSONValue?) -> Bool {
        guard case .json(let pointer) = source else { return false }
        return json.flatMap(pointer.value(in:))?.isDamaged ?? false
    }

    private func found(
        in reply: TokenReply,
        _ json: JSONValue?,
        from url: AuthorityURL?,
        at now: UnixTime
    ) -> [UInt8]? {
        switch source {
        case .json(let pointer):
            switch json.flatMap(pointer.value(in:)) {
            case .string(let text): return Array(text.utf8)
            case .number(let number): return Array(number.text.utf8)
            default: return nil
            }
        case .header(let name):
            let values = reply.fields.filter { $0.name.lowercased() == name.lowercased() }.map { Array($0.value.utf8) }
            // If the field comes several times, the first value that the pattern matches.
            return values.first { pattern?.firstMatch(in: $0) != nil } ?? values.first
        case .cookie(let name): return ReceivedCookies(reply, from: url, at: now).value(of: name)
        case .body:
            if pattern != nil { return reply.body }
            let isBlank: (UInt8) -> Bool = { $0 == 0x20 || (0x09...0x0D).contains($0) }
            return Array(reply.body.drop(while: isBlank).reversed().drop(while: isBlank).reversed())
        }
    }

    /// For messages.
    var place: String {
        switch source {
        case .json(let pointer): "the value at \(pointer.text)"
        case .header(let name): "the header field \(name)"
        case .cookie(let name): "the cookie \(name)"
        case .body: pattern == nil ? "the body" : "the part of the body that matches the regular expression"
        }
    }
}

/// Reads what stands in a web page, where `&` and quotes are written as character references.
enum HTMLText {
    /// Those that programs write when they escape a value; a page's author has others, which do not stand in tokens.
    private static let named: [String: Unicode.Scalar] = [
        "amp": "&", "lt": "<", "gt": ">", "quot": "\"", "apos": "'", "nbsp": "\u{A0}", "plus": "+", "equals": "=",
        "sol": "/", "colon": ":", "comma": ",", "period": ".", "lowbar": "_", "num": "#", "percnt": "%",
    ]
    private static let longestReference = 10

    /// A reference that is not known stays as it is.
    static func decoded(_ bytes: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        var rest = bytes[...]
        while let start = rest.firstIndex(of: UInt8(ascii: "&")) {
            text += rest[..<start]
            rest = rest[start...]
            let reference = rest.dropFirst().prefix(longestReference).prefix { $0 != UInt8(ascii: ";") }
            guard reference.endIndex < rest.endIndex, rest[reference.endIndex] == UInt8(ascii: ";"),
                let character = character(String(decoding: reference, as: UTF8.self))
            else {
                text.append(UInt8(ascii: "&"))
                rest = rest.dropFirst()
                continue
            }
            text += String(character).utf8
            rest = rest[(reference.endIndex + 1)...]
        }
        return text + rest
    }

    private static func character(_ reference: String) -> Unicode.Scalar? {
        guard reference.hasPrefix("#") else { return named[reference] }
        let digits = reference.dropFirst()
        let isHexadecimal = digits.hasPrefix("x") || digits.hasPrefix("X")
        let number = isHexadecimal ? UInt32(digits.dropFirst(), radix: 16) : UInt32(digits)
        return number.flatMap { $0 == 0 ? nil : Unicode.Scalar($0) }
    }
}

extension TokenReply {
    /// Whether the body is a web page: by its type, or by its first character if there is no type.
    var isHTML: Bool {
        if let type = field("Content-Type") { return type.lowercased().contains("html") }
        return body.first { $0 > 0x20 } == UInt8(ascii: "<")
    }
}

extension Extraction {
    private static let meanings: [String: KeyMeaning] = [
        "json": KeyMeaning("A JSON pointer (RFC 6901).", example: "/data/token"),
        "header": KeyMeaning("The name of a header field.", example: "X-Token"),
        "cookie": KeyMeaning("The name of a cookie that the response sets.", example: "session"),
        "body": KeyMeaning("true: the whole body.", example: "true"),
        "regex": KeyMeaning(
            "A regular expression for the body, or for the header field. Its first group counts.",
            example: "'name=\"csrf\" value=\"([^\"]+)\"'"
        ),
        "optional": KeyMeaning("Whether the response may omit it.", default: "false", example: "true"),
    ]
}
