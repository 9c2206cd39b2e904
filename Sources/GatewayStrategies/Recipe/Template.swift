import GatewayCore

/// Text with names in double braces, `Bearer {{session}}`, that are filled in when it is used.
struct Template: Hashable, Sendable {
    enum Part: Hashable, Sendable {
        case text(String)
        case name(String)
    }

    /// Why a text is not a template; a sentence that follows the key.
    struct Mistake: Error, Hashable {
        let message: String
    }

    /// A name without a value when it is needed: a step that yields it was left out.
    struct MissingValue: Error, Hashable {
        let name: String
    }

    enum Escaping {
        case none
        /// For a URL (RFC 3986 §2.3): all but letters, digits and `-._~`.
        case percent
        /// For one segment of a path (RFC 3986 §3.3).
        case segment
    }

    private(set) var parts: [Part] = []

    init(_ text: String) throws(Mistake) {
        var rest = Substring(text)
        while let open = rest.firstRange(of: "{{") {
            append(.text(String(rest[..<open.lowerBound])))
            guard let close = rest[open.upperBound...].firstRange(of: "}}") else {
                throw Mistake(message: "a \"{{\" is never closed")
            }
            let name = String(rest[open.upperBound..<close.lowerBound]).trimmedBlanks
            guard Self.isName(name) else {
                throw Mistake(message: "between \"{{\" and \"}}\" stands a name: letters, digits, _, - and .")
            }
            append(.name(name))
            rest = rest[close.upperBound...]
        }
        append(.text(String(rest)))
    }

    private init(parts: [Part]) { parts.forEach { append($0) } }

    private mutating func append(_ part: Part) {
        switch (part, parts.last) {
        case (.text(""), _): break
        case (.text(let more), .text(let text)?): parts[parts.count - 1] = .text(text + more)
        default: parts.append(part)
        }
    }

    static func isName(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.count <= 64
            && name.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x5F, 0x2D, 0x2E: true
                default: false
                }
            }
    }

    /// In order of appearance, perhaps more than once.
    var names: [String] {
        parts.compactMap { part in
            guard case .name(let name) = part else { return nil }
            return name
        }
    }

    /// Puts in what never changes.
    func settling(_ constants: [String: String], _ escaping: Escaping = .none) -> Template {
        Template(
            parts: parts.map { part in
                guard case .name(let name) = part, let value = constants[name] else { return part }
                return .text(escaping.apply(value))
            }
        )
    }

    func filled(from values: [String: Secret], _ escaping: Escaping = .none) throws(MissingValue) -> Secret {
        var text = ""
        for part in parts {
            switch part {
            case .text(let own): text += own
            case .name(let name):
                guard let value = values[name] else { throw MissingValue(name: name) }
                value.withValue { text += escaping.apply($0) }
            }
        }
        return Secret(text)
    }

    /// The text with its names, as it was written.
    var shown: String {
        parts.map { part in
            switch part {
            case .text(let text): text
            case .name(let name): "{{\(name)}}"
            }
        }.joined()
    }
}

extension Template.Escaping {
    fileprivate func apply(_ value: String) -> String {
        switch self {
        case .none: value
        case .percent: PercentEncoding.encode(value)
        case .segment: PercentEncoding.encode(segment: value)
        }
    }
}

extension String {
    fileprivate var trimmedBlanks: String {
        let start = drop { $0 == " " }
        return String(start.reversed().drop { $0 == " " }.reversed())
    }
}
