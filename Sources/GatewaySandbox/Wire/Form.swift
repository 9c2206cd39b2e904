import GatewayCore

/// The fields of an `application/x-www-form-urlencoded` body, read strictly.
///
/// A field without a value counts as absent and a repeated one is an error (RFC 6749 §3.2). A lenient reader would
/// hide the client that leaves `+`, `&` or `%` of a secret unescaped.
struct Form: Sendable {
    private let fields: [String: String]

    /// nil when `bytes` is not a form, or names a field twice.
    init?(_ bytes: some Collection<UInt8>) {
        var fields: [String: String] = [:]
        for pair in bytes.split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: true) {
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, let name = Self.decode(parts[0]), let value = Self.decode(parts[1]) else {
                return nil
            }
            guard !name.isEmpty, fields[name] == nil else { return nil }
            fields[name] = value
        }
        self.fields = fields
    }

    subscript(name: String) -> String? { fields[name].flatMap { $0.isEmpty ? nil : $0 } }

    /// Undoes form encoding; nil when a byte stands there that must be escaped, or an escape is broken.
    static func decode(_ bytes: some Collection<UInt8>) -> String? {
        bytes.allSatisfy(isFormByte) ? FormEncoding.decode(bytes) : nil
    }

    private static func isFormByte(_ byte: UInt8) -> Bool {
        (0x21...0x7E).contains(byte) && byte != UInt8(ascii: "=") && byte != UInt8(ascii: "&")
    }
}
