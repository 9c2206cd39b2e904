package import GatewayHTTP

extension TokenRequest {
    /// Values that no answer may repeat: secrets by their name, and values that cannot be guessed.
    package var secrets: [Secret] {
        let hidden = fields.filter { Self.isSecret($0.value, named: $0.name) }.flatMap { Self.parts(of: $0.value) }
        return hidden + (parameters + queryParameters).filter { Self.isSecret($0.value, named: $0.name) }.map(\.value)
    }

    private var parameters: [(name: String, value: Secret)] {
        switch body {
        case .none: []
        case .form(let parameters): parameters.map { ($0.name, $0.value) }
        case .content(let type, let content): content.withValue { Self.values(in: $0, type: type.lowercased()) }
        }
    }

    private var queryParameters: [(name: String, value: Secret)] {
        url.text.firstIndex(of: "?").map { Self.formValues(in: url.text[$0...].dropFirst()) } ?? []
    }

    // MARK: Contents

    private static func values(in content: String, type: String) -> [(name: String, value: Secret)] {
        if let json = JSONValue(Array(content.utf8)) { return leaves(of: json, named: "") }
        if type.hasPrefix("application/x-www-form-urlencoded") { return formValues(in: content[...]) }
        // The texts between the tags of XML, and whatever else stands by itself.
        return content.split { $0.isWhitespace || "<>\"'".contains($0) }.map { ("", Secret(String($0))) }
    }

    private static func leaves(of value: JSONValue, named name: String) -> [(name: String, value: Secret)] {
        switch value {
        case .string(let text): [(name, Secret(text))]
        case .object(let members): members.flatMap { leaves(of: $0.value, named: $0.key) }
        case .array(let elements), .conflict(let elements): elements.flatMap { leaves(of: $0, named: name) }
        case .null, .bool, .number: []
        }
    }

    private static func formValues(in text: Substring) -> [(name: String, value: Secret)] {
        text.split(separator: "&").map { pair in
            let parts = pair.split(separator: "=", maxSplits: 1).map { FormEncoding.decode($0.utf8) ?? String($0) }
            return parts.count == 2 ? (parts[0], Secret(parts[1])) : ("", Secret(parts.first ?? ""))
        }
    }

    // MARK: Which of them are secrets

    /// Whether the value of this parameter or field may be repeated.
    static func isPublic(_ name: String) -> Bool { publicNames.contains(name.lowercased()) }

    private static func isSecret(_ value: Secret, named name: String) -> Bool {
        guard !isPublic(name) else { return false }
        if SecretMask.isSensitive(name) || sensitiveNames.contains(name.lowercased()) { return true }
        return value.withValue {
            $0.utf8.count >= 8 && !$0.utf8.allSatisfy { (0x61...0x7A).contains($0.asciiLowercased) }
        }
    }

    /// A field with and without its scheme. `Basic` holds a name and a password, which an answer could repeat by themselves.
    private static func parts(of value: Secret) -> [Secret] {
        value.withValue { text in
            let words = text.split(separator: " ").map(String.init)
            guard words.count == 2 else { return [value] }
            let decoded = Base64.decodeURL(words[1].replacing("+", with: "-").replacing("/", with: "_")) ?? []
            let password = decoded.split(separator: UInt8(ascii: ":"), maxSplits: 1).dropFirst().first
            guard words[0].lowercased() == "basic", let password else { return [value, Secret(words[1])] }
            let plain = String(decoding: password, as: UTF8.self)
            return [value, Secret(words[1]), Secret(plain), Secret(FormEncoding.decode(password) ?? plain)]
        }
    }

    private static let sensitiveNames: Set<String> = [
        "code", "code_verifier", "device_code", "otp", "totp", "pin", "mfa_code", "answer", "signature", "sig",
        "session",
        "sid",
    ]

    /// Text about them helps, and does no harm.
    private static let publicNames: Set<String> = [
        "grant_type", "response_type", "client_assertion_type", "subject_token_type", "requested_token_type",
        "actor_token_type", "assertion_type", "scope", "scopes", "audience", "resource", "redirect_uri", "client_id",
        "username", "user", "login", "email", "tenant", "realm", "domain", "box_subject_type", "box_subject_id",
        "accept", "content-type", "user-agent",
    ]
}
