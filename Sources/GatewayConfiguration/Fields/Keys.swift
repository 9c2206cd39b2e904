import GatewayHTTP

/// The keys of one block of the configuration. Each is declared once: its name, the property that it sets, the values that it takes, and
/// what people are told about it.
///
/// The default is read from the block itself. The decoder, the JSON Schema, `config explain`, the reference, the plan that is shown and
/// the comparison of two plans read the same declaration.
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
        let isFixed: Bool
        let read: @Sendable (ConfigFields, inout Block) -> Void
        let text: @Sendable (Block) -> String?
    }

    /// The block of a configuration that sets none of these keys.
    package let defaults: Block
    package let meanings: [String: KeyMeaning]
    private let keys: [Key]

    /// - Parameter defaults: The block of a configuration that sets none of these keys.
    package init(_ defaults: Block, _ declare: (Declarations) -> Void) {
        let declarations = Declarations(defaults)
        declare(declarations)
        self.defaults = defaults
        keys = declarations.keys
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
            let key = Key(name: name, isFixed: isFixed) { fields, block in
                if let value = kind.read(fields, name) { block[keyPath: property] = value }
            } text: { block in
                kind.text(block[keyPath: property])
            }
            keys.append(key)
            return declaration(name, standard ?? kind.text(defaults[keyPath: property]), type, example)
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
            let key = Key(name: name, isFixed: false) { fields, block in
                if let value = kind.read(fields, name) { block[keyPath: property] = value }
            } text: { block in
                block[keyPath: property].map(kind.text) ?? absent
            }
            keys.append(key)
            return declaration(name, standard, type, example)
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
            shown: @escaping @Sendable (Block) -> String? = { _ in nil },
            example: String
        ) -> Declaration {
            keys.append(Key(name: name, isFixed: false, read: read, text: shown))
            return declaration(name, standard, type, example)
        }

        /// Keys of this mapping that are declared with a part of the block. The decoder of that part reads them.
        package func include<Part>(_ part: Keys<Part>, _ property: any KeyPath<Block, Part> & Sendable) {
            keys += part.keys.map { key in
                Key(name: key.name, isFixed: key.isFixed, read: { _, _ in }, text: { key.text($0[keyPath: property]) })
            }
            meanings.merge(part.meanings) { own, _ in own }
        }

        private func declaration(
            _ name: String,
            _ standard: String?,
            _ type: String?,
            _ example: String
        ) -> Declaration {
            Declaration { [self] text in
                meanings[name] = KeyMeaning(text, default: standard, type: type, example: example)
            }
        }
    }

    /// A key whose meaning is missing.
    package struct Declaration {
        fileprivate let explain: (String) -> Void

        /// - Parameter text: One or two sentences for people.
        package func means(_ text: String) { explain(text) }
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
        for key in keys { texts[key.name] = key.text(block) }
        return texts
    }

    /// Whether the value of `name` cannot be changed while the gateway runs.
    package func isFixed(_ name: String) -> Bool { keys.contains { $0.name == name && $0.isFixed } }
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
package struct KeyKind<Value: Sendable>: Sendable {
    let read: @Sendable (ConfigFields, String) -> Value?
    let text: @Sendable (Value) -> String

    /// - Parameter read: Returns nil where the key has no value, or one that was refused.
    package init(
        _ read: @escaping @Sendable (_ fields: ConfigFields, _ key: String) -> Value?,
        text: @escaping @Sendable (Value) -> String
    ) {
        self.read = read
        self.text = text
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
