import Crypto
import GatewayCore

extension ServedPlan {
    /// 64 hexadecimal digits.
    static func newKey() -> String {
        var random = SystemRandomNumberGenerator()
        return Hexadecimal.random(bytes: 32, from: &random)
    }

    init(_ plan: Plan, key: String) {
        let secret = SymmetricKey(data: Array(key.utf8))
        let digest = PlanDigest(plan) { bytes in
            Hexadecimal.text(of: HMAC<SHA256>.authenticationCode(for: bytes, using: secret))
        }
        self.init(digest: digest, key: key)
    }

    /// What is to be added, changed, kept and dropped on the way to `plan`.
    func changes(to plan: Plan) -> [PlanChange] {
        PlanChange.between(digest, ServedPlan(plan, key: key).digest)
    }
}
