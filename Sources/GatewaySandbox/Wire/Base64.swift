import FoundationEssentials
import GatewayCore

extension Base64 {
    /// nil when `text` is not standard base64 of UTF-8 text.
    static func decodeText(_ text: String) -> String? {
        Data(base64Encoded: text).flatMap { String(validating: $0, as: UTF8.self) }
    }
}
