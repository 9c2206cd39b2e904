package import GatewayHTTP

/// The keys of one block of the configuration. Each is declared once: its name, the property that it sets, the values that it takes, and
/// what people are told about it.
///
/// The default is read from the block itself. The decoder, the JSON Schema, `config explain`, the reference, the plan that is shown,
/// the comparison of two plans and the digest of a plan read the same declaration.
///
///     static let keys = Keys(Limits()) {
///         $0("header_bytes", \.headerBytes, .bytes(1024...1_048_576), example: "64KiB")
///             .means("Maximum size of a request or response head.")
///     }
///
/// They are read in the order of their declaration.
package struct Keys<Block: Sendable>: Sendable {
    package typealias Property<Value> = any WritableKeyPath<Block, Value> & Sendable

    fileprivate struct Key: Sendable {
        let name: String
        var isFixed = false
        let read: @Sendable (ConfigFields, inout Block) -> Void
        /// nil for a key that code reads and nothing shows.
        var text: (@Sendable (Block) -> String?)?
        /// What a digest of the block is made of; nil takes `text`.
        var covered: (@Sendable (Block) -> [any CanonicalValue])?
        var shown: [Shown] = []
    }

    /// What the plan shows of a key.
    fileprivate struct Shown: Sendable {
        let name: String
        let value: @Sendable (Block) -> ShownValue?
        /// Its lines of the text, made from all values that the block shows.
        let lines: @Sendable ([String: ShownValue]) -> [(key: String, text: String)]
    }

    /// The block of a configuration that sets none of these keys.
    package let defaults: Block
    package let meanings: [String: KeyMeaning]
    private let keys: [Key]
    /// What `plan` shows of each key, in the order of their declarations.
    private let shown: [Shown]

    /// - Parameter defaults: The block of a configuration that sets none of these keys.
    package init(_ defaults: Block, _ declare: (Declarations) -> Void) {
        let declarations = Declarations(defaults)
        declare(declarations)
        self.defaults = defaults
        keys = declarations.keys
        shown = keys.flatMap(\.shown)
        meanings = declarations.meanings
    }

    // MARK: Declaring

    package final class Declarations {
        private let defaults: Block
        fileprivate private(set) var keys: [Key] = []
        fileprivate private(set) var meanings: [String: KeyMeaning] = [:]

        fileprivate init(_ defaults: Block) { self.defaults = defaults }

        /// A key that sets a property.
        ///
        /// - Parameters:
        ///   - standard: What to say of the default, where its value does not say it.
        ///   - isFixed: Whether it is decided once, when the gateway starts.
        package func callAsFunction<Value>(
            _ name: String,
            _ property: Property<Value>,
            _ kind: KeyKind<Value>,
            default standard: String? = nil,
            type: String? = nil,
            isFixed: Bool = false,
            example: String
        ) -> Declaration {
            var key = Key(name: name, isFixed: isFixed) { fields, block in
                if let value = kind.read(fields, name) { block[keyPath: property] = value }
            } text: { block in
                kind.text(block[keyPath: property])
            }
            if let values = kind.covered { key.covered = { values($0[keyPath: property]) } }
            return declare(key, standard ?? kind.text(defaults[keyPath: property]), type, example)
        }

        /// A key that may be left out, and then sets nothing.
        ///
        /// - Parameters:
        ///   - standard: What to say of the default; nil says nothing of it.
        ///   - absent: What the plan shows without a value; nil leaves the line out.
        package func callAsFunction<Value>(
            _ name: String,
            _ property: Property<Value?>,
            _ kind: KeyKind<Value>,
            default standard: String? = nil,
            shownAs absent: String? = nil,
            type: String? = nil,
            example: String
        ) -> Declaration {
            var key = Key(name: name) { fields, block in
                if let value = kind.read(fields, name) { block[keyPath: property] = value }
            } text: { block in
                block[keyPath: property].map(kind.text) ?? absent
            }
            if let values = kind.covered { key.covered = { $0[keyPath: property].map(values) ?? [] } }
            return declare(key, standard, type, example)
        }

        /// A key that code reads, because its value depends on other keys.
        ///
        /// - Parameters:
        ///   - read: Without it, the decoder of the block reads the key before or after the others.
        ///   - shown: The value as the configuration would spell it; nil leaves the line out.
        package func callAsFunction(
            _ name: String,
            default standard: String? = nil,
            type: String? = nil,
            read: @escaping @Sendable (_ fields: ConfigFields, _ block: inout Block) -> Void = { _, _ in },
            shown: (@Sendable (Block) -> String?)? = nil,
            example: String
        ) -> Declaration {
            declare(Key(name: name, read: read, text: shown), standard, type, example)
        }

        /// Keys of this mapping that are declared with a part of the block. The decoder of that part reads them.
        package func include<Part>(_ part: Keys<Part>, _ property: any KeyPath<Block, Part> & Sendable) {
            for key in part.keys {
                var own = Key(name: key.name, isFixed: key.isFixed, read: { _, _ in }, text: nil)
                if let text = key.text { own.text = { text($0[keyPath: property]) } }
                if let values = key.covered { own.covered = { values($0[keyPath: property]) } }
                for shown in key.shown {
                    own.shown.append(
                        Shown(name: shown.name, value: { shown.value($0[keyPath: property]) }, lines: shown.lines)
                    )
                }
                keys.append(own)
            }
            meanings.merge(part.meanings) { own, _ in own }
        }

        private func declare(_ key: Key, _ standard: String?, _ type: String?, _ example: String) -> Declaration {
            let index = keys.count
            keys.append(key)
            return Declaration { [self] change in
                change(&keys[index])
            } explain: { [self] text in
                meanings[key.name] = KeyMeaning(text, default: standard, type: type, example: example)
            }
        }
    }

    /// A key whose meaning is missing.
    package struct Declaration {
        fileprivate let change: ((inout Key) -> Void) -> Void
        fileprivate let explain: (String) -> Void

        /// - Parameter text: One or two sentences for people.
        package func means(_ text: String) { explain(text) }

        /// The values that a digest of the block is made of, if the text of the key does not say everything. No values: the key
        /// has none here, or what it says is compared elsewhere.
        package func covers(_ values: @escaping @Sendable (Block) -> [any CanonicalValue]) -> Declaration {
            change { $0.covered = values }
            return self
        }

        /// A value that the plan shows in JSON, as `name`, and one or more lines of the text.
        ///
        /// - Parameters:
        ///   - line: What stands before it in the text, if that is not `name`.
        ///   - absent: What the text says if there is no value.
        ///   - texts: A line each; by default the value is one.
        ///   - value: nil leaves it out.
        package func shows(
            _ name: String,
            as line: String? = nil,
            orElse absent: String? = nil,
            texts: @escaping @Sendable (ShownValue) -> [String] = { [$0.text] },
            _ value: @escaping @Sendable (Block) -> ShownValue?
        ) -> Declaration {
            change {
                $0.shown.append(
                    Shown(name: name, value: value) { values in
                        (values[name].map(texts) ?? absent.map { [$0] } ?? []).map { (line ?? name, $0) }
                    }
                )
            }
            return self
        }

        /// A value whose line of the text, if it has one, also depends on other values.
        package func shows(
            _ name: String,
            as line: String? = nil,
            text: @escaping @Sendable ([String: ShownValue]) -> String?,
            _ value: @escaping @Sendable (Block) -> ShownValue?
        ) -> Declaration {
            change {
                $0.shown.append(
                    Shown(name: name, value: value) { values in text(values).map { [(line ?? name, $0)] } ?? [] }
                )
            }
            return self
        }

        /// A mapping that the plan shows in JSON, and these members of it in the text, without empty lists.
        package func shows(
            _ name: String,
            members: [String],
            _ value: @escaping @Sendable (Block) -> [String: ShownValue]?
        ) -> Declaration {
            change {
                $0.shown.append(
                    Shown(name: name) { block in
                        value(block).map { .mapping($0) }
                    } lines: { values in
                        guard case .mapping(let values)? = values[name] else { return [] }
                        return members.compactMap { member in
                            guard let value = values[member], value != .list([]) else { return nil }
                            return ("\(name).\(member)", value.text)
                        }
                    }
                )
            }
            return self
        }

        /// A value that the plan shows in JSON alone.
        package func showsInJSON(_ name: String, _ value: @escaping @Sendable (Block) -> ShownValue?) -> Declaration {
            shows(name, texts: { _ in [] }, value)
        }
    }

    // MARK: Using

    /// In the order of their declaration.
    package var names: [String] { keys.map(\.name) }

    /// A whole block: no other key may stand in it.
    package func decode(_ fields: ConfigFields?) -> Block {
        var block = defaults
        guard let fields else { return block }
        read(fields, into: &block)
        fields.refuseUnknownKeys()
        return block
    }

    /// Reads the keys that set a property. The others are left to the caller.
    package func read(_ fields: ConfigFields, into block: inout Block) {
        fields.explain(meanings)
        for key in keys { key.read(fields, &block) }
    }

    /// The values as the configuration would spell them, by key.
    package func texts(of block: Block) -> [String: String] {
        var texts: [String: String] = [:]
        for key in keys { texts[key.name] = key.text?(block) }
        return texts
    }

    /// What the plan shows of a block, by name.
    package func shownValues(of block: Block) -> [String: ShownValue] {
        var values: [String: ShownValue] = [:]
        for shown in shown { values[shown.name] = shown.value(block) }
        return values
    }

    /// The lines of the text for what ``shownValues(of:)`` returned, which another process may have made.
    package func shownLines(of values: [String: ShownValue]) -> [(key: String, text: String)] {
        shown.flatMap { $0.lines(values) }
    }

    /// The lines of the text for a block, on one line and without their keys.
    package func shownText(of block: Block) -> String {
        shownLines(of: shownValues(of: block)).map(\.text).joined(separator: ", ")
    }

    /// Every value of the block, for a digest.
    package func add(_ block: Block, to bytes: inout CanonicalBytes) {
        for key in keys {
            for value in key.covered?(block) ?? [key.text?(block)] { value.add(to: &bytes) }
        }
    }

    /// Those keys whose text does not say everything, each with the bytes for a digest of it. One without a value is left out.
    package func coveredBytes(of block: Block) -> [(name: String, bytes: [UInt8])] {
        keys.compactMap { key in
            guard let values = key.covered?(block), !values.isEmpty else { return nil }
            var bytes = CanonicalBytes()
            for value in values { value.add(to: &bytes) }
            return (key.name, bytes.bytes)
        }
    }

    /// Keys that neither a text nor a digest has: a change of one goes unnoticed. There must be none.
    package var uncompared: [String] { keys.filter { $0.text == nil && $0.covered == nil }.map(\.name) }

    /// Whether the value of `name` cannot be changed while the gateway runs.
    package func isFixed(_ name: String) -> Bool { keys.contains { $0.name == name && $0.isFixed } }
}

/// A value of the plan, as JSON has it and as the text shows it.
package enum ShownValue: Hashable, Sendable {
    case flag(Bool)
    case number(Int)
    case text(String)
    case list([ShownValue])
    case mapping([String: ShownValue])

    package static func texts(_ texts: [String]) -> ShownValue { .list(texts.map { .text($0) }) }

    /// On one line, as the configuration would spell it.
    package var text: String {
        switch self {
        case .flag(let flag): String(flag)
        case .number(let number): String(number)
        case .text(let text): text
        case .list(let values): "[\(values.map(\.text).joined(separator: ", "))]"
        case .mapping(let values):
            "{\(values.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value.text)" }.joined(separator: ", "))}"
        }
    }
}

extension ShownValue: Codable {
    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if let flag = try? container.decode(Bool.self) {
            self = .flag(flag)
        } else if let number = try? container.decode(Int.self) {
            self = .number(number)
        } else if let text = try? container.decode(String.self) {
            self = .text(text)
        } else if let values = try? container.decode([ShownValue].self) {
            self = .list(values)
        } else {
            self = .mapping(try container.decode([String: ShownValue].self))
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .flag(let flag): try container.encode(flag)
        case .number(let number): try container.encode(number)
        case .text(let text): try container.encode(text)
        case .list(let values): try container.encode(values)
        case .mapping(let values): try container.encode(values)
        }
    }
}

extension Keys where Block == Void {
    /// Keys that code reads.
    package init(_ declare: (Declarations) -> Void) { self.init((), declare) }
}

extension ConfigFields {
    /// Says what keys of this mapping mean. Their decoder calls this before it asks for them.
    package func explain<Block>(_ keys: Keys<Block>) { explain(keys.meanings) }

    /// Names keys that are part of this mapping without reading them.
    package func know<Block>(_ keys: Keys<Block>) { for name in keys.names { know(name) } }
}

/// The values that a key takes: how they are read, and how they are spelled.
///
/// A block with a value of its own extends it beside its keys.
package struct KeyKind<Value: Sendable>: Sendable {
    let read: @Sendable (ConfigFields, String) -> Value?
    let text: @Sendable (Value) -> String
    /// What a digest is made of; nil takes `text`.
    let covered: (@Sendable (Value) -> [any CanonicalValue])?

    /// - Parameters:
    ///   - read: Returns nil where the key has no value, or one that was refused.
    ///   - covered: What a digest is made of, if two values can have the same text.
    package init(
        _ read: @escaping @Sendable (_ fields: ConfigFields, _ key: String) -> Value?,
        text: @escaping @Sendable (Value) -> String,
        covering covered: (@Sendable (Value) -> [any CanonicalValue])? = nil
    ) {
        self.read = read
        self.text = text
        self.covered = covered
    }
}

extension KeyKind where Value == Int {
    package static func bytes(_ range: ClosedRange<Int>) -> Self {
        KeyKind {
            $0.size($1, in: range)
        } text: {
            ConfigUnits.text(bytes: $0)
        }
    }

    package static func count(_ range: ClosedRange<Int>) -> Self {
        KeyKind {
            $0.integer($1, in: range)
        } text: {
            String($0)
        }
    }

    package static func percent(_ range: ClosedRange<Int> = 0...100) -> Self {
        KeyKind {
            $0.percent($1, in: range)
        } text: {
            "\($0)%"
        }
    }
}

extension KeyKind where Value == Duration {
    package static func duration(_ range: ClosedRange<Duration>) -> Self {
        KeyKind {
            $0.duration($1, in: range)
        } text: {
            ConfigUnits.text($0)
        }
    }
}

extension KeyKind where Value == Bool {
    package static var flag: Self {
        KeyKind {
            $0.bool($1)
        } text: {
            String($0)
        }
    }
}

extension KeyKind where Value == String {
    package static var text: Self {
        KeyKind {
            $0.string($1)
        } text: {
            $0
        }
    }
    package static var file: Self {
        KeyKind {
            $0.filePath($1)
        } text: {
            $0
        }
    }
}

extension KeyKind where Value == [String] {
    /// A program and its arguments.
    package static var command: Self {
        KeyKind {
            $0.command($1)
        } text: {
            $0.joined(separator: " ")
        } covering: {
            [$0]
        }
    }
}

extension KeyKind where Value: RawRepresentable & CaseIterable, Value.RawValue == String {
    /// One of the words of an enumeration.
    package static var choice: Self {
        KeyKind {
            $0.choice($1, of: Value.self)
        } text: {
            $0.rawValue
        }
    }
}

/// What a key of the configuration means, for people.
///
/// It stands where the key is declared, in ``Keys`` or in a table of a strategy, and the decoder hands it to
/// ``ConfigFields/explain(_:)``. From there it reaches `config explain`, the JSON Schema and diagnostics. A test compares
/// the keys that have a meaning with those that are decoded, so none is left out and none stays behind.
package struct KeyMeaning: Hashable, Sendable {
    /// One or two sentences.
    package let text: String
    /// As it would be written; nil when there is no value without the key.
    package let standard: String?
    /// Where the kind of the value does not say it all; nil takes what the decoder asked for.
    package let type: String?
    /// A value as YAML. More than one line stand below the key.
    package let example: String

    package init(_ text: String, default standard: String? = nil, type: String? = nil, example: String) {
        self.text = text
        self.standard = standard
        self.type = type
        self.example = example
    }

    /// The name of keys that people choose, in a table of meanings.
    package static let anyName = "*"

    /// The key with its example, as lines of YAML.
    ///
    /// - Parameter limit: The maximum number of lines below the key.
    package func lines(for key: String, limit: Int = .max) -> [String] {
        let lines = example.split(separator: "\n", omittingEmptySubsequences: false)
        guard lines.count > 1 else { return ["\(key): \(example)"] }
        return ["\(key):"] + lines.prefix(limit).map { "  \($0)" }
    }
}
