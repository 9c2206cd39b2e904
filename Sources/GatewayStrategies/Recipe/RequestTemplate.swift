import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// A request to an authorization server with names in it: `{method, url, headers, basic, body}`.
struct RequestTemplate: Hashable, Sendable {
    enum Body: Hashable, Sendable {
        case none
        case form([NamedTemplate])
        case json(JSONTemplate)
        case text(Template, type: String)
    }

    struct NamedTemplate: Hashable, Sendable {
        let name: String
        let value: Template
    }

    let method: TokenRequest.Method
    let url: Template
    private(set) var headers: [NamedTemplate]
    let basic: [Template]
    let body: Body

    /// Reads the keys of a request; the caller refuses the unknown ones.
    ///
    /// - Parameter readsBasic: Whether `basic` is one of them.
    init?(in fields: ConfigFields, scope: TemplateScope, readsBasic: Bool = true) {
        let errors = fields.context.errorCount
        let url = Self.url(in: fields, scope: scope)
        headers = Self.headers(in: fields, scope: scope)
        basic = readsBasic ? Self.basic(in: fields, scope: scope) : []
        body = Self.body(in: fields, scope: scope)
        let written = fields.choice("method", of: TokenRequest.Method.self)
        method = written ?? (body == .none ? .get : .post)
        if method == .get, body != .none { fields.error("method", "a GET request has no body") }
        if !basic.isEmpty, headers.contains(where: { $0.name.lowercased() == "authorization" }) {
            fields.error("basic", "the header field Authorization is already set in \"headers\"")
        }
        guard let url, fields.context.errorCount == errors else { return nil }
        self.url = url
    }

    private static func url(in fields: ConfigFields, scope: TemplateScope) -> Template? {
        guard fields.has("url") else {
            fields.missing("url")
            return nil
        }
        guard let url = scope.template("url", in: fields, .percent) else { return nil }
        // Whatever is filled in later, the request goes to the host that the configuration names.
        let samples = ["x", "y"].map { sample in
            url.settling(Dictionary(uniqueKeysWithValues: Set(url.names).map { ($0, sample) })).shown
        }
        do throws(AuthorityURL.Refusal) {
            let (one, other) = (try AuthorityURL(samples[0]), try AuthorityURL(samples[1]))
            guard one.origin == other.origin else {
                fields.error("url", "scheme, host and port must not depend on what is filled in later")
                return nil
            }
            return url
        } catch {
            fields.error("url", error.message + (error == .hasUserInfo ? "; use \"basic\"" : ""))
            return nil
        }
    }

    private static func headers(in fields: ConfigFields, scope: TemplateScope) -> [NamedTemplate] {
        guard let own = fields.fields("headers") else { return [] }
        var headers: [NamedTemplate] = []
        for name in own.chosenNames() {
            guard let value = scope.template(name, in: own) else { continue }
            guard let name = own.fieldName(named: name) else { continue }
            if name.lowercased() == "content-type" {
                own.error(name, "is set by the body; to choose it, use body: {text, type}")
            }
            if headers.contains(where: { $0.name.lowercased() == name.lowercased() }) {
                own.error(name, "the field is set twice")
            }
            headers.append(NamedTemplate(name: name, value: value))
        }
        return headers
    }

    private static func basic(in fields: ConfigFields, scope: TemplateScope) -> [Template] {
        guard let own = fields.fields("basic") else { return [] }
        own.explain([
            "username": KeyMeaning("The user name. Templates are filled in.", example: "me"),
            "password": KeyMeaning("The password. Templates are filled in.", example: "{env: PORTAL_PASSWORD}"),
        ])
        defer { own.refuseUnknownKeys() }
        for key in ["username", "password"] where !own.has(key) { own.missing(key) }
        let (username, password) = (scope.template("username", in: own), scope.template("password", in: own))
        if username?.shown.contains(":") == true { own.error("username", ConfigFields.colonInUsername) }
        guard let username, let password else { return [] }
        return [username, password]
    }

    private static func body(in fields: ConfigFields, scope: TemplateScope) -> Body {
        guard let own = fields.fields("body") else { return .none }
        own.explain([
            "form": KeyMeaning("The fields of a form. Templates are filled in.", example: "{user: me}"),
            "json": KeyMeaning("A JSON document. Templates in its strings are filled in.", example: "{user: me}"),
            "text": KeyMeaning("A string. Templates are filled in.", example: "user=me"),
            "type": KeyMeaning(
                "The Content-Type of text.",
                default: "text/plain; charset=utf-8",
                example: "text/xml"
            ),
        ])
        own.know("type")
        defer { own.refuseUnknownKeys() }
        let kinds = ["form", "json", "text"].filter { own.has($0) }
        guard kinds.count == 1, let kind = kinds.first else {
            if !kinds.isEmpty || own.unknownKeys.isEmpty { own.error("a body is exactly one of form, json and text") }
            return .none
        }
        if own.has("type"), kind != "text" { own.error("type", "is for text only") }
        switch kind {
        case "form":
            return .form((scope.templates("form", in: own) ?? []).map { NamedTemplate(name: $0.name, value: $0.value) })
        case "json":
            let json = own.node("json").flatMap {
                JSONTemplate($0, path: own.path.appending("json"), scope: scope, context: own.context)
            }
            return json.map { .json($0) } ?? .none
        default:
            guard let text = scope.template("text", in: own) else { return .none }
            return .text(text, type: own.string("type") ?? "text/plain; charset=utf-8")
        }
    }

    // MARK: Use

    /// Adds header fields that are the same on every request.
    func adding(_ name: String, _ value: Template) -> RequestTemplate {
        var copy = self
        copy.headers.append(NamedTemplate(name: name, value: value))
        return copy
    }

    var names: Set<String> {
        var names = url.names + headers.flatMap(\.value.names) + basic.flatMap(\.names)
        switch body {
        case .none: break
        case .form(let parameters): names += parameters.flatMap(\.value.names)
        case .json(let json): names += json.names
        case .text(let text, _): names += text.names
        }
        return Set(names)
    }

    /// Where it goes, with `*` for what is filled in later.
    var destination: AuthorityURL? {
        try? AuthorityURL(url.settling(Dictionary(uniqueKeysWithValues: Set(url.names).map { ($0, "*") })).shown)
    }

    /// Never depends on what is filled in.
    var origin: Origin? { destination?.origin }

    /// For messages.
    var host: String { origin?.host ?? "the authorization server" }

    func request(with values: [String: Secret]) throws(Template.MissingValue) -> TokenRequest? {
        let text = try url.filled(from: values, .percent)
        let shown = url.shown
        guard let url = text.withValue({ text in try? AuthorityURL(text, shownAs: shown) }) else { return nil }
        var fields: [Injection.Field] = []
        for header in headers {
            fields.append(Injection.Field(name: header.name, value: try header.value.filled(from: values)))
        }
        if basic.count == 2 {
            let (username, password) = (try basic[0].filled(from: values), try basic[1].filled(from: values))
            fields += username.withValue { Injection.basic(username: $0, password: password) }.fields
        }
        return TokenRequest(method: method, url: url, fields: fields, body: try filledBody(values))
    }

    private func filledBody(_ values: [String: Secret]) throws(Template.MissingValue) -> TokenRequest.Body {
        switch body {
        case .none: return .none
        case .form(let templates):
            var parameters: [TokenRequest.Parameter] = []
            for template in templates {
                parameters.append(TokenRequest.Parameter(template.name, try template.value.filled(from: values)))
            }
            return .form(parameters)
        case .json(let json): return .content(type: "application/json", Secret(try json.text(with: values)))
        case .text(let text, let type): return .content(type: type, try text.filled(from: values))
        }
    }
}
