/// A plan as far as it can leave the process: what can be shown, and keyed digests of what cannot.
///
/// Two digests made with one key are compared by ``PlanChange/between(_:_:)``, also across processes.
package struct PlanDigest: Hashable, Sendable, Codable {
    package var summary: PlanSummary
    /// By the path of a thing with a name, such as `routes.box`: everything it was defined with, secrets included.
    package var marks: [String: String]

    /// - Parameter mark: A keyed digest, from which nothing can be learned without the key.
    package init(_ plan: Plan, mark: ([UInt8]) -> String) { self = PlanDefinitions(plan).digest(mark) }

    fileprivate init(summary: PlanSummary, marks: [String: String]) {
        self.summary = summary
        self.marks = marks
    }
}

/// What a plan consists of, as bytes to compute digests of. It holds the plan's secrets, so it must not be kept.
///
/// With many routes, it takes longer to make than all digests of it.
package struct PlanDefinitions: Sendable {
    private let summary: PlanSummary
    private var parts: [(path: String, bytes: [UInt8])] = []

    package init(_ plan: Plan) {
        summary = PlanSummary(plan)
        parts.reserveCapacity(plan.credentials.count + plan.routes.count)
        var policies = Descriptions<RenewalPolicy>()
        for credential in plan.credentials {
            add("credentials.\(credential.name)", Self.bytes(of: credential, &policies))
        }
        var settings = Descriptions<RoutePlan>()
        for route in plan.routes { add("routes.\(route.name)", Self.bytes(of: route, &settings)) }
        for client in plan.access.clients { add("access.clients.\(client.name)", Self.bytes(of: client)) }
        for user in plan.admin.users {
            add("listeners.admin.users.\(user.proofs.name)", Self.bytes(of: user.proofs))
        }
        for (listener, shown) in zip(plan.listeners, summary.listeners) {
            let key = listener.tls?.privateKey.withValue { Array($0.utf8) } ?? []
            let files = [listener.tls?.certificatePath, listener.tls?.clientCAPath].map { $0 ?? "" }
            add("listeners.proxy.\(shown.name)", Array("\(files)".utf8) + key)
        }
        for listener in plan.authz {
            guard let engine = listener.engine else { continue }
            let secrets = engine.tokens + [listener.tls?.privateKey].compactMap(\.self)
            let files = [listener.tls?.certificatePath, listener.tls?.clientCAPath].map { $0 ?? "" }
            let bytes: [UInt8] = secrets.flatMap { secret in secret.withValue { Array($0.utf8) + [0] } }
            add("listeners.authz.\(engine.name)", Array("\(files)".utf8) + bytes)
        }
        if let headers = plan.telemetry?.headers {
            add("telemetry.headers", headers.flatMap { $0.line.withValue { $0 } })
        }
        if let database = plan.tokens.database {
            let urls = [database.url, database.listenURL].map { url in
                let parameters = url?.parameters.sorted { $0.key < $1.key } ?? []
                return
                    "\(url?.description ?? "") \(url?.user ?? "") \(parameters) \(url?.password?.withValue { $0 } ?? "")"
            }
            add("tokens.database", Array("\(urls) \(database.password?.withValue { $0 } ?? "")".utf8))
        }
        let keys = [
            ("key", plan.tokens.key), ("encryption_key", plan.tokens.encryptionKey),
            ("previous_encryption_key", plan.tokens.previousEncryptionKey),
        ]
        for case (let name, .value(let key)?) in keys {
            add("tokens.\(name)", key.withValue { Array($0.utf8) })
        }
    }

    /// - Parameter mark: A keyed digest, from which nothing can be learned without the key.
    package func digest(_ mark: ([UInt8]) -> String) -> PlanDigest {
        let marks = parts.map { ($0.path, mark($0.bytes)) }
        return PlanDigest(summary: summary, marks: Dictionary(marks) { $1 })
    }

    private mutating func add(_ path: String, _ bytes: [UInt8]) { parts.append((path, bytes)) }

    /// What proves the client.
    private static func bytes(of client: AccessPlan.Client) -> [UInt8] {
        var proof: [UInt8] = []
        for token in client.tokens {
            switch token {
            case .token(let token): proof += token.withValue { Array($0.utf8) } + [0]
            case .tokenSHA256(let digest): proof += digest
            }
        }
        let others = [client.certificate?.description, client.jwt?.description].compactMap(\.self)
        return proof + others.flatMap { Array("\n\($0)".utf8) }
    }

    private static func bytes(of credential: CredentialPlan, _ policies: inout Descriptions<RenewalPolicy>) -> [UInt8] {
        var bytes = Array("\(credential.strategyKind) \(policies.text(of: credential.policy))".utf8)
        for part in credential.definition { bytes += part.withValue { Array($0.utf8) } + [0] }
        switch credential.strategy.behavior {
        case .none: break
        case .fixed(let injection), .onChallenge(let injection, _):
            for field in injection.fields { bytes += field.value.withValue { Array("\(field.name) \($0)".utf8) } + [0] }
            if let query = injection.query {
                bytes += query.value.withValue { Array("\(query.name) \($0)".utf8) }
            }
            if let path = injection.path { bytes += path.value.withValue { Array($0.utf8) } }
        case .token(let grant): bytes += grant.identity.canonicalBytes
        case .tokenPerSubject(let grants): bytes += grants.identity.canonicalBytes
        case .tokenPerChallenge(let grants): bytes += grants.identity.canonicalBytes
        }
        return bytes
    }

    private static func bytes(of route: RoutePlan, _ settings: inout Descriptions<RoutePlan>) -> [UInt8] {
        var plain = route
        plain.span = SourceSpan(file: 0, line: 0, column: 0)
        plain.credential = nil
        plain.tls.privateKey = nil
        // What is not the same for most routes.
        let own =
            [
                plain.name, plain.upstream.scheme.rawValue, plain.upstream.host, String(plain.upstream.port),
                plain.upstreamPath,
                plain.matchPath, plain.upstreamMatchPath,
            ] + plain.matchHosts
        (plain.name, plain.upstreamPath, plain.matchPath, plain.upstreamMatchPath, plain.matchHosts) = (
            "", "", "", "", []
        )
        plain.upstream = Origin(scheme: .https, host: "", port: 0)
        let secrets = [route.tls.privateKey].compactMap(\.self) + route.headers.set.map(\.value)
        return Array("\(own) \(settings.text(of: plain))".utf8)
            + secrets.flatMap { $0.withValue { Array($0.utf8) + [0] } }
    }
}

/// The texts of values, each of which is printed once: that takes some 50 µs for a route.
private struct Descriptions<Value: Hashable> {
    private var texts: [Value: String] = [:]

    mutating func text(of value: Value) -> String {
        if let text = texts[value] { return text }
        let text = "\(value)"
        texts[value] = text
        return text
    }
}

extension PlanSummary.Listener {
    /// What the listener takes from the system.
    package var name: String { unix.map { "unix \($0)" } ?? address ?? "" }
}
