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
