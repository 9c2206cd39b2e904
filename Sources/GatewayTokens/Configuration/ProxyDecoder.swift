package import GatewayConfiguration
package import GatewayHTTP

/// A `proxy` of the configuration, before it is known what the credential that it names injects.
package struct ProxySetting: Sendable {
    package var rule: ProxyRule
    /// The credential whose `Authorization` is sent to the proxy.
    var login: CredentialReference?
    package let span: SourceSpan
    package let path: ConfigPath
}

/// Reads `proxy`: of `defaults`, of a route, and of a credential.
package enum ProxyDecoder {
    /// How the key is declared wherever it stands.
    package static let type = "a URL, none, environment, or a mapping"
    package static let example = "http://proxy.example.com:3128"

    private static let keys = Keys {
        $0("url", example: "http://proxy.example.com:3128")
            .means("The proxy. With https, the connection to the proxy itself is encrypted.")
        $0("username", example: "{env: PROXY_USER}")
            .means("The user name for the proxy (Basic).")
        $0("password", example: "{env: PROXY_PASSWORD}")
            .means("The password for the proxy.")
        $0("auth", type: "the name of a credential", example: "corporate-proxy")
            .means("A credential whose Authorization value is sent to the proxy instead, such as bearer or basic.")
        $0("no_proxy", default: "[]", type: "list of hosts", example: "[internal.example.com, 10.0.0.0/8]")
            .means(
                "Servers to reach directly: a name with those below it, .name for those below it only, an address or a "
                    + "network; names and addresses may have a port. * stands for all."
            )
        $0("ca", default: "those of the system", example: "corp-ca.pem")
            .means("The file with the certificate authorities that the certificate of an https proxy must come from.")
    }

    /// - Parameter isShared: It is for many servers, and those on this machine are still reached directly.
    /// - Returns: nil where the key is absent or faulty.
    package static func decode(_ owner: ConfigFields, isShared: Bool = false) -> ProxySetting? {
        guard let form = owner.scalarOrFields("proxy"), let span = owner.node("proxy")?.span else { return nil }
        let path = owner.path.appending("proxy")
        switch form {
        case .scalar(let scalar):
            guard var rule = rule(scalar.text, owner) else { return nil }
            if isShared { rule.sparesLoopback = true }
            return ProxySetting(rule: rule, span: span, path: path)
        case .fields(let fields):
            defer { fields.refuseUnknownKeys() }
            fields.explain(keys)
            guard var setting = mapping(fields, at: span) else { return nil }
            if isShared { setting.rule.sparesLoopback = true }
            return setting
        }
    }

    private static func rule(_ text: String, _ owner: ConfigFields) -> ProxyRule? {
        switch text {
        case "none": return .direct
        case "environment":
            let secrets = owner.context.secrets
            guard !secrets.areUnread else { return .direct }
            return owner.usable("proxy", try ProxyRule(environment: { secrets.environment($0) }))
        default:
            guard let url = owner.string("proxy") else { return nil }
            hideLogin(url, owner, "proxy")
            return owner.usable("proxy", try ParentProxy(url)).map { ProxyRule($0) }
        }
    }

    private static func mapping(_ fields: ConfigFields, at span: SourceSpan) -> ProxySetting? {
        let login = login(fields)
        let reference = reference(fields)
        let exceptions = exceptions(fields)
        let caPath = fields.filePath("ca")
        fields.refuseNothing(behind: "ca", hint: "to trust the system's certificate authorities")
        if reference != nil, fields.has("username") || fields.has("password") {
            fields.error("auth", "give either a credential or a user name and a password, not both")
        }
        guard let url = fields.requiredString("url") else { return nil }
        hideLogin(url, fields, "url")
        guard var parent = fields.usable("url", try ParentProxy(url)) else { return nil }
        if caPath != nil, parent.origin.scheme == .http { fields.error("ca", "has no effect: the proxy is http") }
        parent.caPath = caPath
        parent.login = login
        return ProxySetting(
            rule: ProxyRule(parent, except: exceptions),
            login: reference,
            span: span,
            path: fields.path
        )
    }

    /// A URL with a login is refused, and the error would show the line with the password.
    private static func hideLogin(_ url: String, _ fields: ConfigFields, _ key: String) {
        if url.contains("@"), let node = fields.node(key) { fields.context.hide(node) }
    }

    private static func login(_ fields: ConfigFields) -> Secret? {
        fields.refuseNothing(behind: "username", hint: "to send no login")
        let user = fields.textOrSecret("username") { _ in false }
        let password = fields.secret("password")
        if fields.has("username") != fields.has("password") { fields.error("username and password belong together") }
        guard let user, let password else { return nil }
        guard !user.contains(":"), ParentProxy.hasNoControlCharacters(user) else {
            // In Basic the first colon ends it (RFC 7617 section 2).
            fields.error("username", "must not contain a colon or a control character")
            return nil
        }
        return ParentProxy.basic(user: user, password: password)
    }

    private static func reference(_ fields: ConfigFields) -> CredentialReference? {
        fields.refuseNothing(behind: "auth", hint: "to send no login")
        guard fields.has("auth"), let name = fields.string("auth"), let span = fields.node("auth")?.span else {
            return nil
        }
        return CredentialReference(name: name, span: span, path: fields.path.appending("auth"))
    }

    private static func exceptions(_ fields: ConfigFields) -> ProxyBypass {
        var exceptions = ProxyBypass()
        fields.refuseNothing(behind: "no_proxy", hint: "to have no exceptions")
        for (node, path) in fields.elements("no_proxy") ?? [] {
            guard case .scalar(let scalar) = node.content, exceptions.add(scalar.text) else {
                fields.context.error(
                    "expected a host such as example.com, an address, a network such as 10.0.0.0/8, or *",
                    at: node.span,
                    path: path
                )
                continue
            }
        }
        return exceptions
    }
}

/// The logins of proxies, and the proxy of each credential.
extension CredentialDecoder {
    /// - Returns: The rule with the value of the credential that it names; nil if that has none, which is reported.
    package mutating func rule(of setting: ProxySetting) -> ProxyRule? {
        guard let reference = setting.login else { return setting.rule }
        let scalar = ConfigNode.Scalar(text: reference.name, isQuoted: false)
        guard let index = use(scalar, at: reference.span, path: reference.path) else { return nil }
        guard case .fixed(let injection) = plans[index].strategy.behavior, injection.query == nil,
            injection.path == nil,
            injection.fields.count == 1, let field = injection.fields.first, field.name.lowercased() == "authorization"
        else {
            context.error(
                "\(reference.name) cannot be sent to a proxy: name a credential that is sent as it is, in Authorization,"
                    + " such as basic or bearer",
                at: reference.span,
                path: reference.path
            )
            return nil
        }
        var rule = setting.rule
        for way in [\ProxyRule.http, \ProxyRule.https] {
            rule[keyPath: way]?.login = field.value
            rule[keyPath: way]?.credential = plans[index].name
        }
        return rule
    }

    /// Chooses the proxy for each credential's own requests: its own `proxy`, that of the credential that it is made from, or the common one.
    ///
    /// - Parameter common: `defaults.proxy`.
    package mutating func followProxies(_ common: ProxyRule?) {
        var rules: [ProxyRule?] = []
        for plan in plans { rules.append(plan.ownProxy.flatMap { rule(of: $0) }) }
        for index in plans.indices {
            var chosen = rules[index]
            var next = plans[index].parent
            // A chain of parents is no longer than the list.
            for _ in plans.indices where chosen == nil {
                guard let parent = next else { break }
                (chosen, next) = (rules[parent], plans[parent].parent)
            }
            use(chosen ?? common, for: index)
        }
    }

    private mutating func use(_ rule: ProxyRule?, for index: Int) {
        guard let rule, plans[index].strategy.behavior.sendsRequests else { return }
        let origins = Set(plans[index].strategy.behavior.authorityEndpoints.map(\.origin))
        // Where challenges of upstreams name the servers, any of them may be asked.
        let parents = origins.isEmpty ? rule.parents : origins.compactMap { rule.parent(for: $0) }
        guard !parents.isEmpty else { return }
        setProxy(rule, of: index)
    }
}

extension AuthBehavior {
    /// Whether the gateway asks a server for the credential, and does not only run a program.
    package var sendsRequests: Bool {
        switch self {
        case .none, .fixed, .onChallenge, .signed: false
        case .token(let grant): !grant.authorityEndpoints.isEmpty
        case .tokens: true
        }
    }
}
