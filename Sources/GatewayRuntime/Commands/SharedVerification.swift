import GatewayAudit
import GatewayCore

/// What `audit verify --all` found.
struct SharedVerification: Encodable {
    struct Chain: Encodable {
        /// The host of the gateway.
        let gateway: String?
        let chain: String
        let verification: AuditVerification

        func encode(to encoder: any Encoder) throws {
            try verification.encode(to: encoder)
            var container = encoder.container(keyedBy: Key.self)
            try container.encode(gateway, forKey: .gateway)
            try container.encode(chain, forKey: .chain)
        }

        private enum Key: CodingKey { case gateway, chain }

        fileprivate var hasForeignKey: Bool { verification.breach?.fault == .foreignKey }
    }

    private(set) var chains: [Chain] = []

    /// - Returns: A line for people.
    mutating func add(_ chain: SharedAuditChain, _ result: AuditVerification) -> String {
        chains.append(Chain(gateway: chain.gateway, chain: chain.name, verification: result))
        let gateway = LogText.clean(chain.gateway ?? "-").padding(to: 16)
        return "\(gateway)  \(LogText.clean(chain.name).padding(to: 16))  \(Self.words(for: result))\n"
    }

    /// nil when all of them are intact.
    var failure: CommandFailure? {
        let foreign = chains.count { $0.hasForeignKey }
        let broken = chains.count { !$0.verification.isIntact } - foreign
        if broken > 0 { return CommandFailure(.verification, "\(of(broken)) broken") }
        guard foreign > 0 else { return nil }
        return CommandFailure(.failed, "\(of(foreign)) of another key; verify with --key FILE")
    }

    private func of(_ count: Int) -> String {
        "\(count) of \(chains.count) \(chains.count == 1 ? "chain" : "chains") \(count == 1 ? "is" : "are")"
    }

    private static func words(for result: AuditVerification) -> String {
        if let breach = result.breach {
            let words = LogText.clean(breach.explanation)
            if breach.fault == .foreignKey { return "other key  \(words)" }
            return "broken     \(words) (\(breach.fault.rawValue); \(result.rows) rows before it fit)"
        }
        let pruned = result.prunedTo > 0 ? "; rows up to \(result.prunedTo) were removed by retention" : ""
        let loss = result.lostTo.map { $0 > 0 ? "; rows up to \($0) were lost with their database" : "" } ?? ""
        return "intact     \(result.rows) \(result.rows == 1 ? "row" : "rows")\(pruned)\(loss)"
    }
}
