/// A plan as far as it can leave the process: what can be shown, and keyed digests of what cannot.
///
/// Two digests made with one key are compared by ``PlanChange/between(_:_:)``, also across processes.
package struct PlanDigest: Hashable, Sendable, Codable {
    package var summary: PlanSummary
    /// By the path of a thing with a name, such as `routes.box`: everything it was defined with, secrets included.
    package var marks: [String: String]

    /// - Parameter mark: A keyed digest, from which nothing can be learned without the key.
    package init(_ plan: Plan, mark: ([UInt8]) -> String) {
        summary = PlanSummary(plan)
        marks = [:]
        for credential in plan.credentials {
            marks["credentials.\(credential.name)"] = mark(Self.bytes(of: credential))
        }
        for route in plan.routes { marks["routes.\(route.name)"] = mark(Self.bytes(of: route)) }
        for client in plan.access.clients {
            let proof: [UInt8] =
                switch client.proof {
                case .token(let token): token.withValue { Array($0.utf8) }
                case .tokenSHA256(let digest): digest
                }
            marks["access.clients.\(client.name)"] = mark(proof)
        }
        for (listener, shown) in zip(plan.listeners, summary.listeners) {
            let key = listener.tls?.privateKey.withValue { Array($0.utf8) } ?? []
            let files = [listener.tls?.certificatePath, listener.tls?.clientCAPath].map { $0 ?? "" }
            marks["listeners.proxy.\(shown.name)"] = mark(Array("\(files)".utf8) + key)
        }
        if let headers = plan.telemetry?.headers {
            marks["telemetry.headers"] = mark(headers.flatMap { $0.line.withValue { $0 } })
        }
        if let database = plan.tokens.database {
            let urls = [database.url, database.listenURL].map { url in
                let parameters = url?.parameters.sorted { $0.key < $1.key } ?? []
                return "\(url?.description ?? "") \(url?.user ?? "") \(parameters) \(url?.password?.withValue { $0 } ?? "")"
            }
            marks["tokens.database"] = mark(Array("\(urls) \(database.password?.withValue { $0 } ?? "")".utf8))
        }
        let keys = [
            ("key", plan.tokens.key), ("encryption_key", plan.tokens.encryptionKey),
            ("previous_encryption_key", plan.tokens.previousEncryptionKey),
        ]
        for case (let name, .value(let key)?) in keys {
            marks["tokens.\(name)"] = mark(key.withValue { Array($0.utf8) })
        }
    }

    private static func bytes(of credential: CredentialPlan) -> [UInt8] {
        var bytes = Array("\(credential.strategyKind) \(credential.policy)".utf8)
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

    private static func bytes(of route: RoutePlan) -> [UInt8] {
        var plain = route
        plain.span = SourceSpan(file: 0, line: 0, column: 0)
        plain.credential = nil
        plain.tls.privateKey = nil
        let secrets = [route.tls.privateKey].compactMap(\.self) + route.headers.set.map(\.value)
        return Array("\(plain)".utf8) + secrets.flatMap { $0.withValue { Array($0.utf8) + [0] } }
    }
}

extension PlanSummary.Listener {
    /// What the listener takes from the system.
    package var name: String { unix.map { "unix \($0)" } ?? address ?? "" }
}
