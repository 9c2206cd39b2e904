/// Reads `whoami` of a route.
enum WhoAmIDecoder {
    static let meanings: [String: KeyMeaning] = [
        "path": KeyMeaning("The path, and the query if it needs one.", example: "/user"),
        "method": KeyMeaning("The method.", default: "GET", example: "POST"),
        "shows": KeyMeaning(
            "Where the name of the user or account stands in the JSON of the answer (RFC 6901).",
            example: "/login"
        ),
    ]

    static func decode(_ route: ConfigFields) -> WhoAmI? {
        switch route.scalarOrFields("whoami") {
        case nil: return nil
        case .scalar?:
            return route.string("whoami").flatMap { path($0, of: route, key: "whoami") }.map { WhoAmI(path: $0) }
        case .fields(let fields)?: return decode(mapping: fields)
        }
    }

    private static func decode(mapping fields: ConfigFields) -> WhoAmI? {
        defer { fields.refuseUnknownKeys() }
        fields.explain(meanings)
        let method = fields.choice("method", of: WhoAmI.Method.self) ?? .get
        let pointer = pointer(fields)
        guard let text = fields.requiredString("path"), let path = path(text, of: fields, key: "path") else {
            return nil
        }
        return WhoAmI(method: method, path: path, shows: pointer)
    }

    private static func path(_ text: String, of fields: ConfigFields, key: String) -> String? {
        guard text.hasPrefix("/"), text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "#") }) else {
            fields.error(key, "expected a path that begins with \"/\", and a query if it needs one")
            return nil
        }
        return text
    }

    private static func pointer(_ fields: ConfigFields) -> JSONPointer? {
        guard let text = fields.string("shows") else { return nil }
        guard let pointer = JSONPointer(text) else {
            fields.error("shows", "expected a JSON pointer such as /login (RFC 6901)")
            return nil
        }
        return pointer
    }
}
