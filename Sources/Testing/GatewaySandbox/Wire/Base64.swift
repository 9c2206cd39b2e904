import FoundationEssentials

enum Base64 {
    static func standard(_ bytes: some Sequence<UInt8>) -> String { Data(bytes).base64EncodedString() }

    /// Base64 without padding, in the alphabet that URLs and JSON web tokens use (RFC 7515 §2).
    static func url(_ bytes: some Sequence<UInt8>) -> String {
        let text = Data(bytes).base64EncodedString()
        return String(
            text.compactMap { character -> Character? in
                switch character {
                case "+": "-"
                case "/": "_"
                case "=": nil
                default: character
                }
            }
        )
    }

    /// nil when `text` is not standard base64 of UTF-8 text.
    static func decodeText(_ text: String) -> String? {
        Data(base64Encoded: text).flatMap { String(validating: $0, as: UTF8.self) }
    }
}
