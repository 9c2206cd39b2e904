/// Reads `request_id_header`: the field that names each request in its answer.
enum RequestIDHeader {
    static let standard = "Gateway-Request-Id"
    private static let maximumLength = 64

    /// Fields that mean something else in an answer, in lower case.
    private static let taken: Set<String> = [
        "age", "allow", "authorization", "cache-control", "content-disposition", "content-language", "content-location",
        "content-range", "content-security-policy", "content-type", "date", "etag", "expires", "gateway-note",
        "gateway-token", "last-modified", "location", "proxy-status", "retry-after", "server", "set-cookie",
        "strict-transport-security", "vary", "warning", "www-authenticate",
    ]

    /// - Returns: nil for `off`.
    static func decode(_ fields: ConfigFields) -> String? {
        let key = "request_id_header"
        guard fields.has(key) else { return standard }
        guard let scalar = fields.scalar(key)?.scalar else { return standard }
        let name = scalar.text
        guard name != "off", name != "false" else { return nil }
        if !FieldSyntax.isToken(name) || name.utf8.count > maximumLength {
            fields.error(key, "expected the name of a header field such as \(standard), or off, found \(scalar.shown)")
        } else if FieldSyntax.reserved.contains(FieldSyntax.slot(name)) || taken.contains(FieldSyntax.slot(name)) {
            fields.error(key, "\(name) has another meaning in an answer; use a name such as X-Request-Id")
        }
        return name
    }
}
