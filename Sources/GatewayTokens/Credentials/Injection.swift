package import GatewayHTTP

/// What a credential adds to a forwarded request.
package struct Injection: Hashable, Sendable {
    package struct Field: Hashable, Sendable, CanonicalValue {
        /// A field name as it is written on the wire; compared without regard to case.
        package let name: String
        package let value: Secret

        package init(name: String, value: Secret) {
            self.name = name
            self.value = value
        }

        package func add(to bytes: inout CanonicalBytes) {
            bytes.add(name)
            bytes.add(value)
        }

        /// The line that is sent, with its CRLF.
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

    /// Goes between the base path of the upstream and the path of the request.
    package struct Path: Hashable, Sendable {
        /// The configured text: `/bot{{token}}`.
        package let template: String
        /// What is sent, percent-encoded. It begins with a slash and has none at its end.
        package let value: Secret
        /// What it holds of the token, before it was encoded.
        package let secret: Secret

        package init(template: String, value: Secret, secret: Secret) {
            self.template = template
            self.value = value
            self.secret = secret
        }
    }

    package var fields: [Field]
    package var lines: SecretBytes { SecretBytes(fields.flatMap { $0.line.withValue(\.self) }) }
    package var query: QueryParameter?
    package var path: Path?

    package init(fields: [Field] = [], query: QueryParameter? = nil, path: Path? = nil) {
        self.fields = fields
        self.query = query
        self.path = path
    }

    package var isEmpty: Bool { fields.isEmpty && query == nil && path == nil }

    /// Whether the target of a request holds a secret.
    package var hasSecretTarget: Bool { query != nil || path != nil }

    /// Everything that must not be shown.
    package var secrets: [Secret] { fields.map(\.value) + [query?.value, path?.secret].compactMap(\.self) }

    /// `Authorization: <scheme> <value>` (RFC 9110 §11.6.2).
    package static func authorization(scheme: String, _ value: Secret) -> Injection {
        let field = value.withValue { Secret("\(scheme) \($0)") }
        return Injection(fields: [Field(name: "Authorization", value: field)])
    }
}

extension Injection {
    /// Schemes of `Authorization` whose name stays readable.
    private static let schemes: Set<String> = ["apikey", "basic", "bearer", "dpop", "key", "token"]

    /// The same fields with a description instead of each secret, and what their values are then.
    package func masked(as text: String) -> (injection: Injection, values: [(name: String, value: String)]) {
        let values = fields.map { field in
            let scheme = field.value.withValue { String($0.prefix { $0 != " " }) }
            let isKnown = Self.schemes.contains(scheme.lowercased())
            return (name: field.name, value: isKnown ? "\(scheme) \(text)" : text)
        }
        let masked = Injection(
            fields: values.map { Field(name: $0.name, value: Secret($0.value)) },
            query: query.map { QueryParameter(name: $0.name, value: Secret("token")) },
            path: path.map { path in
                let shown = Secret(path.template.replacing("{{", with: "{").replacing("}}", with: "}"))
                return Path(template: path.template, value: shown, secret: Secret("token"))
            }
        )
        return (masked, values)
    }
}
