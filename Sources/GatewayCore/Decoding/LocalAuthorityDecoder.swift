/// Reads `ca`: the local authority.
enum LocalAuthorityDecoder {
    static let meanings: [String: KeyMeaning] = [
        "permit": KeyMeaning(
            "Suffixes of hosts that the local authority may sign for ahead of their routes: a new host below one needs no new"
                + " trust.",
            default: "[]",
            type: "a list of host names",
            example: "[box.com, github.com]"
        ),
        "constrain": KeyMeaning(
            "Whether each issuer may sign for one host or suffix alone. With false, a person who steals the authority's key from this"
                + " machine can pose as any host to its users.",
            default: "true",
            example: "false"
        ),
        "days": KeyMeaning("How long a new root holds.", default: "90", example: "30"),
    ]

    static func decode(_ fields: ConfigFields?) -> LocalAuthorityPlan {
        guard let fields else { return LocalAuthorityPlan() }
        fields.explain(meanings)
        defer { fields.refuseUnknownKeys() }
        let permit = (fields.elements("permit") ?? []).compactMap { suffix($0.node, $0.path, fields.context) }
        let isConstrained = fields.bool("constrain") ?? true
        if !isConstrained {
            fields.warning(
                "constrain",
                "a person who steals the key of the local authority can pose as any host to its users"
            )
            if !permit.isEmpty { fields.error("permit", "has no effect with constrain: false") }
        }
        let days = fields.integer("days", in: 1...3650) ?? 90
        return LocalAuthorityPlan(permit: permit, isConstrained: isConstrained, days: days)
    }

    private static func suffix(_ node: ConfigNode, _ path: ConfigPath, _ context: ConfigContext) -> String? {
        if case .scalar(let scalar) = node.content {
            let name = scalar.text.lowercased()
            let isName = !name.contains(":") && !name.contains("[") && !name.hasPrefix(".") && !name.hasPrefix("*")
            if isName, let origin = Origin(scheme: .https, authority: name), !origin.isIPv4 {
                guard !name.contains(".") else { return name }
                context.error("would permit a whole top-level domain; name what is below it", at: node.span, path: path)
                return nil
            }
        }
        context.error("expected the name of a host such as example.com, without * and port", at: node.span, path: path)
        return nil
    }
}
