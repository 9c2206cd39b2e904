import GatewayCore

/// Where in the token server's answer the token and its end stand.
struct DelegatedResponse: Hashable {
    enum Format: String, CaseIterable {
        case json
        case text
    }

    let format: Format
    let token: JSONPointer
    let expiresIn: JSONPointer
    let expiresAt: JSONPointer

    /// Reads `text`, `json`, or `{format, token, expires_in, expires_at}` with JSON pointers.
    init?(in fields: ConfigFields) {
        if case .scalar(let scalar)? = fields.node("response")?.content, !scalar.isNull {
            guard let format = fields.choice("response", of: Format.self) else { return nil }
            self.init(format: format, pointer: Self.usual)
            return
        }
        let own = fields.fields("response")
        let format = own?.choice("format", of: Format.self) ?? .json
        self.init(
            format: format,
            pointer: { key in
                guard let text = own?.string(key) else { return Self.usual(key) }
                if format == .text { own?.error(key, "a text has no parts; use format: json") }
                let pointer = JSONPointer(text)
                if pointer == nil { own?.error(key, "expected a JSON pointer such as /data/\(key) (RFC 6901)") }
                return pointer
            }
        )
        own?.refuseUnknownKeys()
    }

    /// As RFC 6749 §5.1 calls them, and as `POST /tokens/NAME` of a gateway answers.
    private static func usual(_ key: String) -> JSONPointer? {
        JSONPointer(key == "token" ? "/access_token" : "/\(key)")
    }

    private init?(format: Format, pointer: (String) -> JSONPointer?) {
        let (token, expiresIn, expiresAt) = (pointer("token"), pointer("expires_in"), pointer("expires_at"))
        guard let token, let expiresIn, let expiresAt else { return nil }
        (self.format, self.token, self.expiresIn, self.expiresAt) = (format, token, expiresIn, expiresAt)
    }
}
