import Crypto
import FoundationEssentials
import GatewayCore
import GatewayTokenStores

extension InstallationKey {
    /// Six hexadecimal digits that change with anything in the plan, its secrets included, and tell nothing about them.
    func digest(of definitions: PlanDefinitions) -> String {
        let marks = definitions.digest { configurationDigest(of: $0) }
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        // Encoding fails for no plan: all of it is text and numbers.
        let bytes = (try? encoder.encode(marks)).map { Array($0) } ?? []
        return String(configurationDigest(of: bytes).prefix(6))
    }
}

extension ServedPlan {
    /// 64 hexadecimal digits.
    static func newKey() -> String {
        Hexadecimal.random(bytes: 32)
    }

    init(_ definitions: PlanDefinitions, key: String) {
        let secret = SymmetricKey(data: Array(key.utf8))
        let digest = definitions.digest { bytes in
            Hexadecimal.text(of: HMAC<SHA256>.authenticationCode(for: bytes, using: secret))
        }
        self.init(digest: digest, key: key)
    }

    /// What is to be added, changed, kept and dropped on the way to `plan`.
    func changes(to plan: Plan) -> [PlanChange] {
        PlanChange.between(digest, ServedPlan(PlanDefinitions(plan), key: key).digest)
    }
}
