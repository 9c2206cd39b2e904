import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// One request of an authorizer: where it goes and which header field carries which token.
struct SessionRequest: Hashable {
    let method: TokenRequest.Method
    let url: AuthorityURL
    /// nil when the request does without the access token.
    let accessField: String?
    let sessionField: String

    /// nil when a token that the request needs is not at hand.
    func request(access: Secret?, session: Secret?) -> TokenRequest? {
        guard let session else { return nil }
        var fields: [Injection.Field] = []
        if let accessField {
            guard let access else { return nil }
            fields.append(Injection.Field(name: accessField, value: access))
        }
        fields.append(Injection.Field(name: sessionField, value: session))
        return TokenRequest(method: method, url: url, fields: fields)
    }
}

/// Turns the paths of a configuration into URLs of one authorizer.
struct SessionPaths {
    /// nil where the configuration names none that can be used: its paths are read all the same.
    let base: AuthorityURL?
    let clientName: String?

    private static let variable = "{client_name}"

    /// Reads `base_url`; a path in it is kept, a query is refused.
    static func base(in fields: ConfigFields) -> AuthorityURL? {
        guard let url = fields.requiredAuthorityURL("base_url") else { return nil }
        guard !url.text.contains("?") else {
            fields.error("base_url", "must not contain a query")
            return nil
        }
        return url
    }

    /// Reads `client_name`, which becomes one segment of the path.
    static func clientName(in fields: ConfigFields, isRequired: Bool) -> String? {
        guard let name = isRequired ? fields.requiredString("client_name") : fields.string("client_name") else {
            return nil
        }
        let isSegment = name.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: true
            default: false
            }
        }
        guard isSegment, name != ".", name != ".." else {
            fields.error("client_name", "is part of a path: letters, digits, \"-\", \".\", \"_\" and \"~\" only")
            return nil
        }
        return name
    }

    /// The URL behind `key` of `fields`, with `{client_name}` filled in.
    func url(in fields: ConfigFields, _ key: String = "path") -> AuthorityURL? {
        guard let path = fields.requiredString(key) else { return nil }
        guard path.hasPrefix("/") else {
            fields.error(key, "must begin with \"/\"")
            return nil
        }
        guard clientName != nil || !path.contains(Self.variable) else {
            fields.error(key, "\(Self.variable) needs the key client_name")
            return nil
        }
        let filled = path.replacing(Self.variable, with: clientName ?? "")
        let url = url(path: filled)
        guard !filled.contains(where: { "{}?#".contains($0) }), url != nil || base == nil else {
            fields.error(key, "must be a path without query and fragment; the only variable is \(Self.variable)")
            return nil
        }
        return url
    }

    /// nil when `path` is not part of a URL, and without a base.
    func url(path: String) -> AuthorityURL? {
        guard let base else { return nil }
        return try? AuthorityURL((base.text.hasSuffix("/") ? String(base.text.dropLast()) : base.text) + path)
    }
}
