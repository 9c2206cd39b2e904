/// Reads what narrows a route: `allow` and `clients`.
enum RouteAccess {
    static func allow(_ fields: ConfigFields) -> [RoutePlan.Allow] {
        fields.refuseNothing(behind: "allow", hint: "to allow everything")
        guard let elements = fields.elements("allow") else { return [] }
        if elements.isEmpty { fields.error("allow", "allows nothing; remove it to allow everything") }
        return elements.compactMap { node, path in
            ConfigFields(node, path: path, context: fields.context, example: fields.example(of: "allow"))
                .flatMap(rule)
        }
    }

    private static func rule(_ fields: ConfigFields) -> RoutePlan.Allow? {
        fields.explain(ruleMeanings)
        let methods = methods(fields)
        defer { fields.refuseUnknownKeys() }
        guard fields.has("path") else {
            fields.missing("path")
            return nil
        }
        guard let text = fields.string("path") else { return nil }
        guard let pattern = PathPattern(text) else {
            fields.error("path", "expected a pattern such as /files/*/content or /files/**")
            return nil
        }
        return RoutePlan.Allow(methods: methods, path: pattern)
    }

    private static func methods(_ fields: ConfigFields) -> [String] {
        fields.refuseNothing(behind: "methods", hint: "to allow every method")
        guard let elements = fields.elements("methods") else { return [] }
        if elements.isEmpty { fields.error("methods", "names no method; remove it to allow every method") }
        return elements.compactMap { node, path in
            guard case .scalar(let scalar) = node.content, !scalar.text.isEmpty,
                scalar.text.utf8.allSatisfy({ (0x41...0x5A).contains($0) || $0 == 0x2D || $0 == 0x5F })
            else {
                fields.context.error("expected a method in capitals, such as GET", at: node.span, path: path)
                return nil
            }
            return scalar.text
        }
    }

    static func clients(
        _ fields: ConfigFields,
        known: [String],
        whenEmpty advice: String = "remove it to let in every client"
    ) -> [String]? {
        guard let elements = fields.elements("clients") else { return nil }
        if elements.isEmpty { fields.error("clients", "names no client; \(advice)") }
        return elements.compactMap { node, path in
            guard case .scalar(let scalar) = node.content, !scalar.isNull else {
                fields.context.error("expected the name of a client", at: node.span, path: path)
                return nil
            }
            guard known.contains(scalar.text) else {
                let hint = Suggestion.hint(for: scalar.text, in: known)
                fields.context.error("no client is named \(scalar.shown)\(hint)", at: node.span, path: path)
                return nil
            }
            return scalar.text
        }
    }
}
