/// What a credential adds to a forwarded request.
package struct Injection: Hashable, Sendable {
    package struct Field: Hashable, Sendable {
        /// A field name as it is written on the wire; compared without regard to case.
        package let name: String
        package let value: Secret

        package init(name: String, value: Secret) {
            self.name = name
            self.value = value
        }

        /// As it is sent, with its CRLF.
        package var line: SecretBytes { SecretBytes(value.withValue { Array("\(name): \($0)\r\n".utf8) }) }
    }

    package struct QueryParameter: Hashable, Sendable {
        package let name: String
        package let value: Secret

        package init(name: String, value: Secret) {
            self.name = name
            self.value = value
        }
    }

    package var fields: [Field]
    package var lines: SecretBytes { SecretBytes(fields.flatMap { $0.line.withValue(\.self) }) }
    package var query: QueryParameter?

    package init(fields: [Field] = [], query: QueryParameter? = nil) {
        self.fields = fields
        self.query = query
    }

    /// `Authorization: <scheme> <value>` (RFC 9110 §11.6.2).
    package static func authorization(scheme: String, _ value: Secret) -> Injection {
        let field = value.withValue { Secret("\(scheme) \($0)") }
        return Injection(fields: [Field(name: "Authorization", value: field)])
    }
}

extension Injection {
    /// Schemes of `Authorization` whose name stays readable.
    private static let schemes: Set<String> = ["apikey", "basic", "bearer", "dpop", "key", "token"]

    /// The same fields with a description in the place of each secret, and what their values are then.
    package func masked(as text: String) -> (injection: Injection, values: [(name: String, value: String)]) {
        let values = fields.map { field in
            let scheme = field.value.withValue { String($0.prefix { $0 != " " }) }
            let isKnown = Self.schemes.contains(scheme.lowercased())
            return (name: field.name, value: isKnown ? "\(scheme) \(text)" : text)
        }
        let masked = Injection(
            fields: values.map { Field(name: $0.name, value: Secret($0.value)) },
            query: query.map { QueryParameter(name: $0.name, value: Secret("token")) }
        )
        return (masked, values)
    }
}
