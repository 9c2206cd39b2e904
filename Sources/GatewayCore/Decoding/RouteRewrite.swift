/// Reads `rewrite` of a route.
enum RouteRewrite {
    /// - Returns: Whether links are rewritten; nil leaves it to how a request finds the route.
    static func decode(_ route: ConfigFields) -> Bool? {
        guard let fields = route.fields("rewrite") else { return nil }
        fields.explain(meanings)
        let links = fields.bool("links")
        if !fields.has("links"), fields.unknownKeys.isEmpty { fields.error("rewrites nothing; leave it out") }
        fields.refuseUnknownKeys()
        return links
    }

    static let meanings: [String: KeyMeaning] = [
        "links": KeyMeaning(
            "Whether URLs of the upstream in Location, Content-Location, Link and Refresh become URLs of the gateway, and"
                + " Destination the other way. Content is never rewritten.",
            default: "true for requests that find the route by its path, false for others",
            example: "true"
        )
    ]
}
