extension ImportedLogin {
    /// The header fields of other programs' configurations that may sign in.
    ///
    /// - Returns: nil when the field holds no credential.
    static func reading(field name: String, value: String) -> ImportedLogin? {
        let lower = name.lowercased()
        guard lower != "cookie", !value.isEmpty else { return nil }
        guard lower == "authorization" else {
            return SecretMask.isSensitive(lower) ? .header(name: name, scheme: nil, ImportedSecret(value)) : nil
        }
        let parts = value.split(separator: " ", maxSplits: 1).map(String.init)
        guard parts.count == 2 else { return .header(name: "Authorization", scheme: nil, ImportedSecret(value)) }
        let text = parts[1].trimmingBlanks
        switch parts[0].lowercased() {
        case "bearer": return .bearer(ImportedSecret(text))
        case "basic":
            guard let bytes = Base64.decode(text), let basic = reading(userInfo: String(decoding: bytes, as: UTF8.self))
            else { return .header(name: "Authorization", scheme: parts[0], ImportedSecret(text)) }
            return basic
        default: return .header(name: "Authorization", scheme: parts[0], ImportedSecret(text))
        }
    }

    /// `name:password` (RFC 7617).
    static func reading(userInfo: String) -> ImportedLogin? {
        guard let colon = userInfo.firstIndex(of: ":") else { return nil }
        let password = ImportedSecret(String(userInfo[userInfo.index(after: colon)...]))
        return .basic(username: .text(String(userInfo[..<colon])), password: password)
    }
}

extension String {
    var trimmingBlanks: String {
        var text = self[...]
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return String(text.drop { $0 == " " || $0 == "\t" })
    }
}
