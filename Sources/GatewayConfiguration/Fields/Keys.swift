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
