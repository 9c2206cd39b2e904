/// Reads `listeners`: where the gateway can be reached.
enum ListenerDecoder {
    struct Listeners {
        var proxy: [ListenerPlan]
        var authz: [ListenerPlan]
        var admin: AdminPlan
    }

    /// - Parameter span: Where to put a listener that the configuration does not name.
    static func decode(_ fields: ConfigFields?, at span: SourceSpan, access: AccessPlan) -> Listeners {
        var proxy = [ListenerPlan(address: .tcp(host: "127.0.0.1", port: 8080), span: span)]
        var admin = AdminPlan(address: adminAddress)
        guard let fields else { return Listeners(proxy: proxy, authz: [], admin: admin) }
        fields.explain(meanings)
        if let elements = fields.elements("proxy") {
            proxy = elements.compactMap { node, path in
                ConfigFields(node, path: path, context: fields.context, example: fields.example(of: "proxy"))
                    .flatMap { listener($0, access) }
            }
            if elements.isEmpty { fields.error("proxy", "names no listener") }
        }
        let authz = EngineDecoder.decode(fields)
        if let own = fields.fields("admin") {
            if let plan = self.admin(own) { admin = plan }
            own.refuseUnknownKeys()
        }
        refuseDuplicates(proxy, authz, admin, fields)
        fields.refuseUnknownKeys()
        return Listeners(proxy: proxy, authz: authz, admin: admin)
    }

    static let adminAddress = ListenerPlan.Address.tcp(host: "127.0.0.1", port: 8081)

    private static func listener(_ fields: ConfigFields, _ access: AccessPlan) -> ListenerPlan? {
        defer { fields.refuseUnknownKeys() }
        fields.explain(addressMeanings)
        fields.explain(tlsOfListener)
        fields.explain(interceptMeanings)
        let intercepts = fields.bool("intercept") ?? false
        let publicURL = PublicURL.decode(fields)
        let connect = fields.fields("connect").map { self.connect($0, intercepts: intercepts) } ?? ConnectPlan()
        switch (fields.has("address"), fields.has("unix")) {
        case (true, false):
            let tls = fields.fields("tls").flatMap(self.tls)
            if fields.has("allow_users") { fields.error("allow_users", "is for unix sockets only") }
            guard let (host, port) = address(fields), let span = fields.node("address")?.span else { return nil }
            if !isLoopback(host), access.clients.isEmpty {
                let advice = "configure access.clients, or listen on 127.0.0.1"
                fields.error("address", "reachable from other machines, but no client is configured; \(advice)")
            }
            if !isLoopback(host), access.requireClient == .false {
                fields.warning("address", "reachable from other machines, and require_client is false")
            }
            if !isLoopback(host), !fields.has("tls") {
                let advice = "add tls, or listen on 127.0.0.1"
                fields.warning(
                    "address",
                    "reachable from other machines without TLS: tokens and content can be read on the way; \(advice)"
                )
            }
            var plan = ListenerPlan(
                address: .tcp(host: host, port: port),
                tls: tls,
                intercepts: intercepts,
                publicURL: publicURL,
                connect: connect,
                span: span
            )
            plan.usesLocalAuthority = fields.fields("tls")?.has("ca") ?? false
            if plan.usesLocalAuthority, intercepts {
                fields.error("intercept", "is for CONNECT, which a listener with \"tls: {ca: local}\" does not take")
            }
            return plan
        case (false, true):
            if fields.has("tls") { fields.error("tls", "is for addresses only, not for unix sockets") }
            guard let place = unix(fields), let span = fields.node("unix")?.span else { return nil }
            return ListenerPlan(
                address: place,
                intercepts: intercepts,
                publicURL: publicURL,
                connect: connect,
                span: span
            )
        case (false, false) where !fields.unknownKeys.filter({ $0 != "tls" && $0 != "allow_users" }).isEmpty:
            fields.know("tls", "allow_users")
            return nil
        default:
            fields.know("tls", "allow_users")
            fields.error("a listener has exactly one of address and unix")
            return nil
        }
    }

    /// CONNECT is taken for `https` upstreams: without one the authority is not even made. A listener that also tunnels has a use then.
    static func warnAboutNothingToIntercept(_ plan: Plan, _ fields: ConfigFields) {
        guard plan.interceptedHosts.isEmpty else { return }
        for (index, listener) in plan.listeners.enumerated()
        where listener.intercepts && listener.connect.unrouted != .tunnel {
            fields.context.warning(
                "intercepts nothing: no route leads to an https:// upstream",
                at: listener.span,
                path: fields.path.appending("listeners").appending("proxy").appending(index).appending("intercept"),
                mayFollow: true
            )
        }
    }

    static func tls(_ fields: ConfigFields) -> ListenerPlan.TLS? {
        fields.explain(tlsMeanings)
        let usesLocalAuthority = fields.word("ca", of: ["local"]) != nil || fields.has("ca")
        let certificate = fields.filePath("certificate")
        let key = fields.has("private_key") ? fields.requiredSecretText("private_key") : nil
        fields.refuseNothing(behind: "client_ca", hint: "to ask clients for no certificate")
        let clientCA = fields.filePath("client_ca")
        for name in ["certificate", "private_key", "client_ca"] where usesLocalAuthority && fields.has(name) {
            fields.error(name, "cannot be combined with \"ca: local\", which makes the certificates")
        }
        if !usesLocalAuthority {
            // The value of a misspelt key may be the secret.
            if !fields.has("private_key") { fields.hidesUnknownValues = true }
            for name in ["certificate", "private_key"] where !fields.has(name) { fields.missing(name, orAnother: true) }
        }
        fields.refuseUnknownKeys()
        guard !usesLocalAuthority, let certificate, let key else { return nil }
        return ListenerPlan.TLS(certificatePath: certificate, privateKey: key, clientCAPath: clientCA)
    }

    static func unix(_ fields: ConfigFields) -> ListenerPlan.Address? {
        let users = users(fields)
        guard let path = fields.filePath("unix") else { return nil }
        let maximum = ListenerPlan.Address.maximumSocketPath
        guard path.utf8.count <= maximum else {
            fields.error("unix", "the path of a socket has at most \(maximum) bytes; this one has \(path.utf8.count)")
            return nil
        }
        return .unix(path: path, allowedUsers: users)
    }

    static func users(_ fields: ConfigFields) -> [UInt32] {
        var users: [UInt32] = []
        for (node, path) in fields.elements("allow_users") ?? [] {
            guard case .scalar(let scalar) = node.content, !scalar.isNull else {
                fields.context.error("expected a user, found \(node.kindName)", at: node.span, path: path)
                continue
            }
            guard let user = UInt32(scalar.text) ?? fields.context.secrets.userID(ofName: scalar.text) else {
                fields.context.error("no user \(scalar.shown) on this machine", at: node.span, path: path)
                continue
            }
            users.append(user)
        }
        return users
    }

    // MARK: Addresses

    static func address(_ fields: ConfigFields) -> (host: String, port: Int)? {
        guard let scalar = fields.scalar("address")?.scalar else { return nil }
        let text = scalar.text
        guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]),
            (0...65535).contains(port), let origin = Origin(scheme: .http, authority: String(text[..<colon]))
        else {
            fields.error("address", "expected host:port such as 127.0.0.1:8080, found \(scalar.shown)")
            return nil
        }
        return (origin.host, port)
    }

    static func isLoopback(_ host: String) -> Bool { Origin(scheme: .http, host: host, port: 80).isLoopback }

    /// Port 0 asks for any free port, so it may stand more than once.
    private static func refuseDuplicates(
        _ proxy: [ListenerPlan],
        _ authz: [ListenerPlan],
        _ admin: AdminPlan,
        _ fields: ConfigFields
    ) {
        let all = proxy + authz
        for (index, listener) in all.enumerated() {
            if case .tcp(_, 0) = listener.address { continue }
            guard let first = all[..<index].first(where: { $0.address.isPlace(of: listener.address) }) else {
                continue
            }
            let related = ConfigDiagnostic.Related("first used here", at: first.span)
            fields.context.error(
                "two listeners have this address",
                at: listener.span,
                path: index < proxy.count
                    ? fields.path.appending("proxy").appending(index)
                    : fields.path.appending("authz").appending(index - proxy.count),
                related: related
            )
        }
        if case .tcp(_, 0) = admin.address { return }
        guard let twin = all.first(where: { $0.address.isPlace(of: admin.address) }) else { return }
        let path = fields.path.appending(twin.engine == nil ? "proxy" : "authz")
        fields.context.error("the admin listener has this address too", at: twin.span, path: path)
    }
}

extension ListenerPlan.Address {
    /// From other machines.
    var isReachable: Bool {
        switch self {
        case .tcp(let host, let port): !Origin(scheme: .http, host: host, port: port).isLoopback
        case .unix: false
        }
    }

    /// Whether only one of both can be bound.
    fileprivate func isPlace(of other: ListenerPlan.Address) -> Bool {
        switch (self, other) {
        case (.unix(let path, _), .unix(let otherPath, _)): path == otherPath
        case (.tcp(let host, let port), .tcp(let otherHost, let otherPort)):
            port == otherPort && !Set(Self.addresses(of: host)).isDisjoint(with: Self.addresses(of: otherHost))
        default: false
        }
    }
}
