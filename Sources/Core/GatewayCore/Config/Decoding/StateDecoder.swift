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
        plan.program = program(fields, of: plan.store)
        fields.refuseUnknownKeys()
        return plan
    }

    private static func program(_ fields: ConfigFields, of store: TokenPlan.Store) -> TokenProgram? {
        guard store == .command else {
            for key in ["command", "environment", "timeout"] where fields.has(key) {
                fields.error(key, "is for \"store: command\"")
            }
            return nil
        }
        if fields.has("path") { fields.error("path", "is for \"store: sqlite\"") }
        if !fields.has("command") { fields.missing("command") }
        let environment = (fields.valueMap("environment") ?? []).map { TokenProgram.Variable($0.name, $0.value) }
        let timeout = fields.duration("timeout", in: .milliseconds(100) ... .seconds(15)) ?? .seconds(10)
        return fields.command("command").map {
            TokenProgram(command: $0, environment: environment, timeout: timeout)
        }
    }

    private static func store(_ fields: ConfigFields) -> TokenPlan.Store? {
        if fields.scalar("store")?.scalar.text == "postgres" {
            fields.error("store", "\"postgres\" is not supported by this version; use memory, sqlite or command")
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
