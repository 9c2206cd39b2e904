import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Sends a fixed value in a header field, a query parameter or the path: any API key, any static scheme.
///
/// The value is sent as it is written; nothing is base64-encoded here.
struct HeaderStrategy: AuthStrategy {
    static let kind = "header"
    static let otherNames = ["api_key", "apikey"]

    private let injection: Injection
    private let value: Secret

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let value = fields.requiredSecret("value")
        let injection: Injection?
        if fields.has("path") {
            injection = Self.path(in: fields, value: value)
        } else if fields.has("query") {
            injection = Self.query(in: fields, value: value)
        } else {
            injection = Self.field(in: fields, value: value)
        }
        guard let injection, let value, fields.context.errorCount == errors else { return nil }
        self.value = value
        self.injection = injection
    }

    var behavior: AuthBehavior { .fixed(injection) }
    var injectedSecret: (key: String, secret: Secret)? { ("value", value) }

    /// nil when the value goes into the target.
    var field: Injection.Field? { injection.fields.first }

    private static func query(in fields: ConfigFields, value: Secret?) -> Injection? {
        for key in ["name", "scheme", "format"] where fields.has(key) {
            fields.error(key, "belongs to a header field; with \"query\" the value is a query parameter")
        }
        guard let name = fields.string("query"), let value else { return nil }
        return Injection(query: Injection.QueryParameter(name: name, value: value))
    }

    private static func path(in fields: ConfigFields, value: Secret?) -> Injection? {
        for key in ["name", "scheme", "format", "query"] where fields.has(key) {
            fields.error(key, "cannot be combined with \"path\": the value goes into the path")
        }
        let scope = TemplateScope(names: [TokenPlacement.token])
        guard let placement = PathPlacement("path", in: fields, scope: scope), let value else { return nil }
        let values = [TokenPlacement.token: value]
        if let obstacle = placement.obstacle(values) {
            fields.error("value", obstacle)
            return nil
        }
        return placement.injected(values).map { Injection(path: $0) }
    }

    private static func field(in fields: ConfigFields, value: Secret?) -> Injection? {
        let name = fields.has("name") ? fields.fieldName("name") : "Authorization"
        let scheme = fields.string("scheme")
        if let scheme, !FieldSyntax.isToken(scheme) {
            fields.error("scheme", "not an authentication scheme (RFC 9110: letters, digits and !#$%&'*+-.^_`|~)")
        }
        let format = fields.has("format") ? Self.format(in: fields) : nil
        if let value, !value.withValue(FieldSyntax.isValue) {
            fields.error("value", "a header field must be visible ASCII without a space at either end")
        }
        guard let name, var value else { return nil }
        if let format {
            guard let formatted = try? format.filled(from: [TokenPlacement.token: value]) else { return nil }
            value = formatted
        }
        let written = scheme.map { scheme in value.withValue { Secret("\(scheme) \($0)") } } ?? value
        return Injection(fields: [Injection.Field(name: name, value: written)])
    }

    /// What the value looks like in the field; nil after a mistake.
    private static func format(in fields: ConfigFields) -> Template? {
        let scope = TemplateScope(names: [TokenPlacement.token])
        guard let template = scope.template("format", in: fields) else { return nil }
        let sample = try? template.filled(from: [TokenPlacement.token: Secret("x")])
        guard template.names == [TokenPlacement.token], let sample, sample.withValue(FieldSyntax.isValue) else {
            fields.error("format", "expected visible ASCII with {{token}} once, such as \"token={{token}}\"")
            return nil
        }
        return template
    }
}

extension HeaderStrategy {
    static let meanings: [String: KeyMeaning] = [
        "name": KeyMeaning("The header field to set.", default: "Authorization", example: "X-Api-Key"),
        "scheme": KeyMeaning("The word before the value, with a space after it.", example: "Token"),
        "value": KeyMeaning("The API key or other secret.", example: "{env: API_KEY}"),
        "format": KeyMeaning(
            "The string in the header field, after the scheme, with {{token}} for the value.",
            default: "\"{{token}}\"",
            example: "\"token={{token}}\""
        ),
        "query": KeyMeaning("The query parameter to set, instead of a header field.", example: "api_key"),
        "path": KeyMeaning(
            "The prefix of each request's path, with {{token}} for the value, instead of a header field.",
            example: "\"/bot{{token}}\""
        ),
    ]
}
