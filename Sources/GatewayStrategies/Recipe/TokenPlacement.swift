import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// What a token looks like on a forwarded request, as `apply` says; `Authorization: Bearer` when it says nothing.
struct TokenPlacement: Hashable, Sendable {
    private enum Place: Hashable {
        case header(String, scheme: String?)
        case query(String)
        case cookie(String)
        /// The token is the password of this user (RFC 7617).
        case basic(username: String)
        case path(PathPlacement)
    }

    private struct Item: Hashable {
        let place: Place
        let value: Template
    }

    /// The name of the token in a template.
    static let token = "token"

    private var items: [Item] = []
    /// What `apply` says, in one spelling; nil when it says nothing.
    private let text: String?

    /// - Parameter extras: What may stand in `value` beside the token.
    init?(in fields: ConfigFields, extras: Set<String> = []) {
        text = fields.node("apply")?.canonicalText
        let scope = TemplateScope(names: extras.union([Self.token]))
        guard let value = try? Template("{{\(Self.token)}}") else { return nil }
        guard let node = fields.node("apply"), !node.isNull else {
            items = [Item(place: .header("Authorization", scheme: "Bearer"), value: value)]
            return
        }
        let errors = fields.context.errorCount
        let blocks: [ConfigFields?]
        if case .sequence = node.content {
            blocks = (fields.elements("apply") ?? []).map {
                ConfigFields($0.node, path: $0.path, context: fields.context)
            }
        } else {
            blocks = [fields.fields("apply")]
        }
        for block in blocks {
            guard let block, let place = Self.place(in: block, scope) else { continue }
            let own = scope.template("value", in: block)
            if case .path = place, block.has("value") { block.error("value", "\"path\" contains the token itself") }
            block.refuseUnknownKeys()
            items.append(Item(place: place, value: own ?? value))
        }
        refuseDoubles(in: fields)
        if items.isEmpty, fields.context.errorCount == errors { fields.error("apply", "is empty") }
        if !items.contains(where: { $0.value.names.contains(Self.token) }), fields.context.errorCount == errors {
            fields.error("apply", "the token itself is not applied")
        }
        guard fields.context.errorCount == errors else { return nil }
    }

    private static func place(in fields: ConfigFields, _ scope: TemplateScope) -> Place? {
        fields.explain(SharedMeanings.placement)
        fields.know("value", "scheme")
        let kinds = ["header", "query", "cookie", "basic", "path"].filter { fields.has($0) }
        guard kinds.count == 1, let kind = kinds.first else {
            if !kinds.isEmpty || fields.unknownKeys.isEmpty {
                fields.error("a token is applied to exactly one of header, query, cookie, basic and path")
            }
            return nil
        }
        if fields.has("scheme"), kind != "header" { fields.error("scheme", "belongs to a header field") }
        switch kind {
        case "header":
            let scheme = fields.string("scheme")
            if let scheme, !FieldSyntax.isToken(scheme) { fields.error("scheme", "not an authentication scheme") }
            return fields.fieldName("header").map { .header($0, scheme: scheme) }
        case "query": return fields.string("query").map { .query($0) }
        case "basic": return fields.basicUsername("basic").map { .basic(username: $0) }
        case "path": return PathPlacement("path", in: fields, scope: scope).map { .path($0) }
        default:
            guard let name = fields.string("cookie") else { return nil }
            guard FieldSyntax.isToken(name) else {
                fields.error("cookie", "not the name of a cookie (RFC 6265)")
                return nil
            }
            return .cookie(name)
        }
    }

    private func refuseDoubles(in fields: ConfigFields) {
        var names: Set<String> = []
        var (hasQuery, hasPath) = (false, false)
        for item in items {
            switch item.place {
            case .header(let name, _):
                if !names.insert(name.lowercased()).inserted { fields.error("apply", "\(name) is set twice") }
            case .basic:
                if !names.insert("authorization").inserted { fields.error("apply", "Authorization is set twice") }
            case .cookie(let name):
                guard !names.insert("cookie \(name)").inserted else { continue }
                fields.error("apply", "the cookie \(name) is set twice")
            case .query:
                if hasQuery { fields.error("apply", "one query parameter at most") }
                hasQuery = true
            case .path:
                if hasPath { fields.error("apply", "one path at most") }
                hasPath = true
            }
        }
    }

    func addInputs(to identity: inout GrantIdentity) { identity.add("apply", text) }

    /// Why this token cannot be applied as it is; nil when it can.
    func obstacle(to token: TokenSet) -> String? {
        for item in items {
            if case .path(let path) = item.place {
                if let obstacle = path.obstacle(values(of: token)) { return obstacle }
                continue
            }
            guard let value = try? item.value.filled(from: values(of: token)) else {
                return "something that \"apply\" needs is missing"
            }
            guard value.withValue(FieldSyntax.isValue) else {
                return "it contains characters that no header field may contain"
            }
            if case .cookie = item.place, !value.withValue(Self.isCookieValue) {
                return "it contains characters that no cookie may contain"
            }
        }
        return nil
    }

    /// What a user agent would send back (RFC 6265 section 5.4), which is more than a server should have set.
    private static func isCookieValue(_ text: String) -> Bool { !text.utf8.contains(UInt8(ascii: ";")) }

    private func values(of token: TokenSet) -> [String: Secret] {
        token.extras.merging([Self.token: token.access]) { $1 }
    }

    func injection(of token: TokenSet) -> Injection {
        var injection = Injection()
        var cookies: [String] = []
        for item in items {
            // A stored token of an older configuration may lack what is asked for now: it is applied as far as it goes.
            guard let value = try? item.value.filled(from: values(of: token)) else { continue }
            switch item.place {
            case .header(let name, let scheme):
                let written = scheme.map { scheme in value.withValue { Secret("\(scheme) \($0)") } } ?? value
                injection.fields.append(Injection.Field(name: name, value: written))
            case .basic(let username):
                injection.fields += Injection.basic(username: username, password: value).fields
            case .query(let name): injection.query = Injection.QueryParameter(name: name, value: value)
            case .path(let path): injection.path = path.injected(values(of: token))
            case .cookie(let name): value.withValue { cookies.append("\(name)=\($0)") }
            }
        }
        if !cookies.isEmpty {
            injection.fields.append(Injection.Field(name: "Cookie", value: Secret(cookies.joined(separator: "; "))))
        }
        return injection
    }
}

/// A token in the path of a request, as `path: "/bot{{token}}"` says: behind the base path of the upstream.
struct PathPlacement: Hashable {
    private let template: Template

    /// - Parameter scope: The names that may stand in it; the token is one of them.
    init?(_ key: String, in fields: ConfigFields, scope: TemplateScope) {
        guard let template = scope.template(key, in: fields) else { return nil }
        let sample = template.names.reduce(into: [:]) { $0[$1] = Secret("x") }
        guard let path = try? template.filled(from: sample), path.withValue(Self.isPath) else {
            fields.error(key, "expected a path such as \"/bot{{token}}\", without a query or a trailing slash")
            return nil
        }
        guard template.names.filter({ $0 == TokenPlacement.token }).count == 1 else {
            fields.error(key, "must contain {{token}} once")
            return nil
        }
        self.template = template
    }

    /// Segments of plain characters: nothing in them means another path.
    private static func isPath(_ text: String) -> Bool {
        guard text.hasPrefix("/"), text.utf8.allSatisfy(isPlain) else { return false }
        let segments = text.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
        return segments.allSatisfy { !$0.isEmpty && $0 != "." && $0 != ".." }
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: Array("/-._~!$&*=:@".utf8).contains(byte)
        }
    }

    /// Why no path can be made; nil when one can.
    func obstacle(_ values: [String: Secret]) -> String? {
        guard let filled = try? template.filled(from: values, .segment) else {
            return "something that \"path\" needs is missing"
        }
        let segments = filled.withValue { $0.split(separator: "/", omittingEmptySubsequences: false).dropFirst() }
        // A server would leave the path out, or go to the one above.
        guard segments.allSatisfy({ !$0.isEmpty && $0 != "." && $0 != ".." }) else {
            return "it is empty or made of dots, which means another path"
        }
        return nil
    }

    /// nil where a value is missing.
    func injected(_ values: [String: Secret]) -> Injection.Path? {
        guard obstacle(values) == nil, let secret = values[TokenPlacement.token],
            let value = try? template.filled(from: values, .segment)
        else { return nil }
        return Injection.Path(template: template.shown, value: value, secret: secret)
    }
}
