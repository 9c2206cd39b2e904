/// Reads `audit` and `tokens`: what the gateway writes to disk.
enum StateDecoder {
    static func audit(_ fields: ConfigFields?, stateDirectory: String) -> AuditPlan {
        var plan = AuditPlan(
            path: "\(stateDirectory)/audit.sqlite",
            usage: .minute,
            retention: .seconds(90 * 86_400),
            onFailure: .block
        )
        guard let fields else { return plan }
        if let path = fields.filePath("path") { plan.path = path }
        if let usage = fields.choice("usage", of: AuditPlan.Usage.self) {
            plan.usage = usage
            if usage == .request { fields.error("usage", "\"request\" is not supported by this version; use minute") }
        }
        if let retention = fields.duration("retention", in: .seconds(3600) ... .seconds(3650 * 86_400)) {
            plan.retention = retention
        }
        if let onFailure = fields.choice("on_failure", of: AuditPlan.OnFailure.self) { plan.onFailure = onFailure }
        fields.refuseUnknownKeys()
        return plan
    }

    static func tokens(_ fields: ConfigFields?, stateDirectory: String) -> TokenPlan {
        var plan = TokenPlan(
            store: .sqlite,
            path: "\(stateDirectory)/tokens.sqlite",
            key: .file(path: "\(stateDirectory)/token.key")
        )
        guard let fields else { return plan }
        if let store = store(fields) { plan.store = store }
        if let path = fields.filePath("path") { plan.path = path }
        if let key = key(fields) { plan.key = key }
        fields.refuseUnknownKeys()
        return plan
    }

    private static func store(_ fields: ConfigFields) -> TokenPlan.Store? {
        if let text = fields.scalar("store")?.scalar.text, text == "postgres" || text == "command" {
            fields.error("store", "\"\(text)\" is not supported by this version; use memory or sqlite")
            return nil
        }
        return fields.choice("store", of: TokenPlan.Store.self)
    }

    /// A file is not read here: the first run creates it.
    private static func key(_ fields: ConfigFields) -> TokenPlan.Key? {
        if let node = fields.node("key"), case .mapping(let entries) = node.content,
            entries.count == 1, entries.first?.key == "file", let source = fields.fields("key")
        {
            return source.requiredFilePath("file").map { .file(path: $0) }
        }
        return fields.secret("key").map { .value($0) }
    }
}
