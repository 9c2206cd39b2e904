import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// What a token looks like on a forwarded request, as `apply` says; `Authorization: Bearer` when it says nothing.
///
/// Also where a signature goes, and what is sent with it.
struct TokenPlacement: Hashable, Sendable {
    /// What is placed.
    enum Subject: Hashable {
        case token
        /// `apply` has no default, and its other values are made for each request, too.
        case signature

        /// Its name in a template.
        var name: String { self == .token ? TokenPlacement.token : HMACSigner.signature }

        fileprivate var kinds: [String] {
            self == .token ? ["header", "query", "cookie", "basic", "path"] : ["header", "query", "basic"]
        }
    }

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

    private let subject: Subject
    private var items: [Item] = []
    /// What `apply` says, in one spelling; nil when it says nothing.
    private let text: String?

    /// - Parameter extras: What may stand in `value` beside the token or the signature.
    init?(in fields: ConfigFields, of subject: Subject = .token, extras: Set<String> = []) {
        self.subject = subject
        text = fields.node("apply")?.canonicalText
        let scope = TemplateScope(names: extras.union([subject.name]))
        guard let value = try? Template("{{\(subject.name)}}") else { return nil }
        guard let node = fields.node("apply"), !node.isNull else {
            guard subject == .token else {
                fields.missing("apply")
                return nil
            }
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
            guard let block else { continue }
            guard let place = Self.place(of: subject, in: block, scope) else {
                block.refuseUnknownKeys()
                continue
            }
            let own = scope.template("value", in: block)
            if case .path = place, block.has("value") { block.error("value", "\"path\" contains the token itself") }
            block.refuseUnknownKeys()
            items.append(Item(place: place, value: own ?? value))
        }
        refuseDoubles(in: fields)
        if items.isEmpty, fields.context.errorCount == errors { fields.error("apply", "is empty") }
        if !items.contains(where: { $0.value.names.contains(subject.name) }), fields.context.errorCount == errors {
            fields.error("apply", "the \(subject.name) itself is not applied")
        }
        guard fields.context.errorCount == errors else { return nil }
    }

    private static func place(of subject: Subject, in fields: ConfigFields, _ scope: TemplateScope) -> Place? {
        fields.explain(subject == .token ? SharedMeanings.placement : SharedMeanings.signaturePlacement)
        fields.know("value", "scheme")
        let kinds = subject.kinds.filter { fields.has($0) }
        guard kinds.count == 1, let kind = kinds.first else {
            if !kinds.isEmpty || fields.unknownKeys.isEmpty {
                let places = "\(subject.kinds.dropLast().joined(separator: ", ")) and \(subject.kinds.last ?? "")"
                fields.error("a \(subject.name) is applied to exactly one of \(places)")
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
        var parameters: Set<String> = []
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
            case .query(let name):
                if subject == .signature {
                    guard !parameters.insert(name).inserted else { continue }
                    fields.error("apply", "the query parameter \(name) is set twice")
                    continue
                }
                if hasQuery { fields.error("apply", "one query parameter at most") }
                hasQuery = true
            case .path:
                if hasPath { fields.error("apply", "one path at most") }
                hasPath = true
            }
        }
    }

    func addInputs(to identity: inout GrantIdentity) {
        identity.add("apply", text)
        // What a value is made of may be in a file, whose name stays when it changes.
        guard subject == .signature else { return }
        identity.add("apply.values", items.map(\.value.shown).joined(separator: "\n"))
    }

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

    func injection(of token: TokenSet) -> Injection { injection(of: values(of: token)) }

    /// What can be applied with these values. The others are left out: a stored token of an older configuration may lack what is
    /// asked for now, and a signature is not there before the request is signed.
    func injection(of values: [String: Secret]) -> Injection {
        var injection = Injection()
        var cookies: [String] = []
        for item in items {
            guard let value = try? item.value.filled(from: values) else { continue }
            switch item.place {
            case .header(let name, let scheme):
                let written = scheme.map { scheme in value.withValue { Secret("\(scheme) \($0)") } } ?? value
                injection.fields.append(Injection.Field(name: name, value: written))
            case .basic(let username):
                injection.fields += Injection.basic(username: username, password: value).fields
            case .query(let name): injection.query = Injection.QueryParameter(name: name, value: value)
            case .path(let path): injection.path = path.injected(values)
            case .cookie(let name): value.withValue { cookies.append("\(name)=\($0)") }
            }
        }
        if !cookies.isEmpty {
            injection.fields.append(Injection.Field(name: "Cookie", value: Secret(cookies.joined(separator: "; "))))
        }
        return injection
    }
}

/// What a signer asks.
extension TokenPlacement {
    /// All names in its values.
    var names: Set<String> { Set(items.flatMap(\.value.names)) }

    /// The names of the fields that it sets.
    var fieldNames: [String] {
        items.compactMap { item in
            switch item.place {
            case .header(let name, _): name
            case .basic: "Authorization"
            case .cookie, .query, .path: nil
            }
        }
    }

    /// The names of the query parameters that it sets.
    var parameterNames: [String] {
        items.compactMap { item in
            guard case .query(let name) = item.place else { return nil }
            return name
        }
    }

    /// The query parameters that can be applied with these values, in the order of `apply`.
    func parameters(of values: [String: Secret]) -> [Injection.QueryParameter] {
        items.compactMap { item in
            guard case .query(let name) = item.place, let value = try? item.value.filled(from: values) else {
                return nil
            }
            return Injection.QueryParameter(name: name, value: value)
        }
    }

    /// Whether each value fits into a header field when all names stand for text that does.
    var fitsFields: Bool {
        let sample = names.reduce(into: [:]) { $0[$1] = Secret("x") }
        return items.allSatisfy { (try? $0.value.filled(from: sample).withValue(FieldSyntax.isValue)) ?? false }
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
