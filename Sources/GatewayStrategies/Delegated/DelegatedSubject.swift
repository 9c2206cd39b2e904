import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Whose token is asked for: `unique_id`.
enum DelegatedSubject {
    case none
    case fixed(String)
    /// Requests say so.
    case named(NamedSubjects)

    /// Reads a text, or `{header, allow, regex, at_most}`. nil after a mistake.
    init?(in fields: ConfigFields) {
        switch fields.scalarOrFields("unique_id") {
        case .scalar?:
            guard let text = fields.string("unique_id") else { return nil }
            self = .fixed(text)
        case .fields(let own)?:
            guard let subjects = NamedSubjects(in: own) else { return nil }
            self = .named(subjects)
        case nil:
            if fields.has("unique_id") { return nil }
            self = .none
        }
    }

    var fixed: String? {
        guard case .fixed(let text) = self else { return nil }
        return text
    }

    /// Looks for what makes no sense together with the rest of the block.
    func check(in fields: ConfigFields, besides placement: TokenPlacement?) {
        if case .none = self { return }
        let written = ["url", "headers", "body", "request_auth"].compactMap { fields.node($0)?.canonicalText }
        if !written.contains(where: { $0.contains("unique_id") }) {
            fields.error("unique_id", "is not used: put {{unique_id}} into url, headers or body")
        }
        guard case .named(let subjects) = self else { return }
        if fields.has("initial_token") {
            fields.error("initial_token", "is the token of one subject, and requests may name several (unique_id)")
        }
        let sample = TokenSet(access: Secret("x"), obtainedAt: UnixTime(seconds: 0))
        let occupied = placement?.injection(of: sample).fields.map { $0.name.lowercased() } ?? []
        if occupied.contains(subjects.field.lowercased()) {
            fields.error("unique_id", "\(subjects.field) is where the token goes (apply)")
        }
    }
}

/// The subjects that requests may name, and where they do.
struct NamedSubjects: Sendable {
    private enum Allowed {
        case listed(Set<String>)
        /// The whole of the name.
        case fitting(TextPattern)
    }

    /// Fields that say something else already.
    private static let taken: Set = ["authorization", "cookie", "origin", "x-request-id"]
    private static let usualLimit = 100

    private static let meanings: [String: KeyMeaning] = [
        "header": KeyMeaning("The header field that names the user. It is not forwarded.", example: "X-Box-User"),
        "allow": KeyMeaning(
            "The names that requests may give. Either this or regex is required.",
            example: "[\"11446498\"]"
        ),
        "regex": KeyMeaning("A regular expression that a whole name must match.", example: "\"[0-9]{1,20}\""),
        "at_most": KeyMeaning("How many users have a token at a time.", default: "100", example: "500"),
    ]

    let field: String
    let limit: Int
    private let allowed: Allowed

    init?(in fields: ConfigFields) {
        fields.explain(Self.meanings)
        defer { fields.refuseUnknownKeys() }
        let errors = fields.context.errorCount
        let field = Self.field(in: fields)
        let allowed = Self.allowed(in: fields)
        limit = fields.integer("at_most", in: 1...1000) ?? Self.usualLimit
        guard let field, let allowed, fields.context.errorCount == errors else { return nil }
        self.field = field
        self.allowed = allowed
    }

    private static func field(in fields: ConfigFields) -> String? {
        guard fields.has("header") else {
            fields.missing("header")
            return nil
        }
        guard let name = fields.fieldName("header") else { return nil }
        guard !taken.contains(name.lowercased()) else {
            fields.error("header", "\(name) has another meaning; choose a field of your own, such as X-Box-User")
            return nil
        }
        // A field whose name has one is refused when it could be read as this one.
        guard !name.contains("_") else {
            fields.error("header", "use a hyphen instead of \"_\": some servers confuse the two")
            return nil
        }
        return name
    }

    private static func allowed(in fields: ConfigFields) -> Allowed? {
        switch (fields.has("allow"), fields.has("regex")) {
        case (true, false):
            guard let names = fields.strings("allow") else { return nil }
            if names.isEmpty { fields.error("allow", "the list is empty") }
            for name in names where !SubjectSyntax.isSubject(name) {
                fields.error("allow", "\"\(name)\" is not a valid subject: \(SubjectSyntax.rule)")
            }
            return .listed(Set(names))
        case (false, true):
            guard let text = fields.string("regex") else { return nil }
            guard fields.usable("regex", try TextPattern(text)) != nil else { return nil }
            return fields.usable("regex", .fitting(try TextPattern("^(?:\(text))$")))
        default:
            if fields.unknownKeys.isEmpty || fields.has("allow") {
                fields.error("needs exactly one of allow (a list) and regex, for the subjects that requests may name")
            }
            return nil
        }
    }

    func allows(_ subject: String) -> Bool {
        switch allowed {
        case .listed(let names): names.contains(subject)
        case .fitting(let pattern): pattern.firstMatch(in: subject.utf8) != nil
        }
    }
}
