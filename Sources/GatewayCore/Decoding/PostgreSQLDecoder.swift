/// Reads what `store: postgres` needs.
enum PostgreSQLDecoder {
    static let keys = ["url", "listen_url", "password", "ca", "allow_unverified"]

    static func decode(_ fields: ConfigFields) -> PostgreSQLPlan? {
        if !fields.has("url") { fields.missing("url") }
        let allowsUnverified = fields.bool("allow_unverified") ?? false
        let password = fields.secret("password")
        fields.refuseNothing(behind: "ca", hint: "for the authorities of the system")
        let authorities = fields.filePath("ca")
        let listenURL = url("listen_url", fields, allowsUnverified)
        guard let url = url("url", fields, allowsUnverified) else { return nil }
        var plan = PostgreSQLPlan(url: url)
        plan.listenURL = listenURL
        plan.password = password
        plan.authorities = authorities
        if url.password != nil, password != nil { fields.error("password", "is in \"url\", too; keep one of them") }
        return plan
    }

    private static func url(_ key: String, _ fields: ConfigFields, _ allowsUnverified: Bool) -> PostgreSQLURL? {
        guard let text = fields.textOrSecret(key, isSecret: holdsPassword) else { return nil }
        let url: PostgreSQLURL
        do throws(PostgreSQLURL.Mistake) {
            url = try PostgreSQLURL(text)
        } catch {
            fields.error(key, error.message)
            return nil
        }
        if let server = url.unprotectedServer, !allowsUnverified {
            fields.error(
                key,
                "with this sslmode, another machine could pose as \(server); remove sslmode for verify-full (and name the "
                    + "authority's file as \"ca\"), or accept it with \"allow_unverified: true\""
            )
        }
        return url
    }

    /// Whatever cannot be read may hold one, too.
    private static func holdsPassword(_ text: String) -> Bool {
        guard let url = try? PostgreSQLURL(text) else { return text.contains("@") }
        return url.password != nil
    }
}
