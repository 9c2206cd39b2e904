/// One statement with its parameters. It is a transaction of its own, so that it also works behind a pooler that hands out a
/// connection per transaction.
package struct PostgreSQLStatement: Sendable {
    package enum Parameter: Sendable {
        case null
        case text(String)
        case integer(Int64)
        case bytes([UInt8])
    }

    package let text: String
    package let parameters: [Parameter]
    /// Has the same effect twice as once, so it is sent again when a connection ends under it.
    package let isRepeatable: Bool

    package init(_ text: String, _ parameters: [Parameter] = [], isRepeatable: Bool = false) {
        self.text = text
        self.parameters = parameters
        self.isRepeatable = isRepeatable
    }
}

extension PostgreSQLStatement.Parameter: ExpressibleByStringLiteral {
    package init(stringLiteral value: String) { self = .text(value) }
}

/// One row of a result. A column of another type than the one asked for is nil, as is a null.
package struct PostgreSQLRow: Sendable {
    enum Value: Sendable, Hashable {
        case null
        case boolean(Bool)
        case integer(Int64)
        case text(String)
        case bytes([UInt8])
    }

    let values: [Value]

    private subscript(column: Int) -> Value { values.indices.contains(column) ? values[column] : .null }

    package func text(_ column: Int) -> String? { if case .text(let text) = self[column] { text } else { nil } }
    package func integer(_ column: Int) -> Int64? { if case .integer(let value) = self[column] { value } else { nil } }
    package func bytes(_ column: Int) -> [UInt8]? { if case .bytes(let bytes) = self[column] { bytes } else { nil } }
    package func boolean(_ column: Int) -> Bool? { if case .boolean(let value) = self[column] { value } else { nil } }
    package func isNull(_ column: Int) -> Bool { self[column] == .null }
}
