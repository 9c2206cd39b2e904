extension ListenerDecoder {
    /// Reads `connect` of a listener: servers that no route leads to.
    static func connect(_ fields: ConfigFields, intercepts: Bool) -> ConnectPlan {
        fields.explain(connectMeanings)
        defer { fields.refuseUnknownKeys() }
        var plan = ConnectPlan()
        plan.unrouted = fields.choice("unrouted", of: ConnectPlan.Unrouted.self) ?? .refuse
        fields.refuseNothing(behind: "allow", hint: "to allow every public server")
        plan.allow = (fields.elements("allow") ?? []).compactMap { destination($0.node, $0.path, fields.context) }
        if let elements = fields.elements("ports") {
            plan.ports = elements.compactMap { port($0.node, $0.path, fields.context) }
            if elements.isEmpty { fields.error("ports", "names no port") }
        }
        switch plan.unrouted {
        case .tunnel where !intercepts:
            fields.error(
                "unrouted",
                "tunnel needs \"intercept: true\" on the same listener: without it CONNECT is refused"
            )
        case .refuse where fields.has("allow") || fields.has("ports"):
            fields.warning("unrouted", "allow and ports count with \"unrouted: tunnel\" only")
        default: break
        }
        return plan
    }

    private static func destination(
        _ node: ConfigNode,
        _ path: ConfigPath,
        _ context: ConfigContext
    ) -> ConnectPlan.Destination? {
        if case .scalar(let scalar) = node.content, let destination = ConnectPlan.Destination(scalar.text) {
            return destination
        }
        let advice =
            "expected a host without a port (api.example.com, *.example.com), an address or a network (10.0.0.0/8)"
        context.error(advice, at: node.span, path: path)
        return nil
    }

    private static func port(_ node: ConfigNode, _ path: ConfigPath, _ context: ConfigContext) -> Int? {
        if case .scalar(let scalar) = node.content, let port = Int(scalar.text), (1...65_535).contains(port) {
            return port
        }
        context.error("expected a port between 1 and 65535", at: node.span, path: path)
        return nil
    }
}
