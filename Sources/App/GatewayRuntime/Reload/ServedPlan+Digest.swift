import Crypto
import GatewayCore

extension ServedPlan {
    /// 64 hexadecimal digits.
    static func newKey() -> String {
        hexadecimal((0..<32).map { _ in UInt8.random(in: .min ... .max) })
    }

    init(_ plan: Plan, key: String) {
        let secret = SymmetricKey(data: Array(key.utf8))
        let digest = PlanDigest(plan) { bytes in
            Self.hexadecimal(Array(HMAC<SHA256>.authenticationCode(for: bytes, using: secret)))
        }
        self.init(digest: digest, key: key)
    }

    /// What is to be added, changed, kept and dropped on the way to `plan`.
    func changes(to plan: Plan) -> [PlanChange] {
        PlanChange.between(digest, ServedPlan(plan, key: key).digest)
    }

    private static func hexadecimal(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
