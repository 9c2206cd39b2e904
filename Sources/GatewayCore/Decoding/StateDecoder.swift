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
        fields.explain(auditMeanings)
        if let path = fields.filePath("path") { plan.path = path }
        if let store = fields.choice("store", of: AuditPlan.Store.self) { plan.store = store }
        if let ships = fields.bool("ship") { plan.ships = ships }
        if let usage = fields.choice("usage", of: AuditPlan.Usage.self) {
            plan.usage = usage
        }
        if let retention = fields.duration("retention", in: .seconds(3600) ... .seconds(3650 * 86_400)) {
            plan.retention = retention
        }
        if let onFailure = fields.choice("on_failure", of: AuditPlan.OnFailure.self) { plan.onFailure = onFailure }
        plan.anchor = AnchorDecoder.decode(fields.fields("anchor"), audit: plan.path)
        if let onMissing = fields.choice("on_missing", of: AuditPlan.OnMissing.self) { plan.onMissing = onMissing }
        // Less would hold little more than the write-ahead log.
        if let bytes = fields.size("max_bytes", in: 16 << 20...16 << 40) { plan.maximumBytes = bytes }
        fields.refuseUnknownKeys()
        return plan
    }

    /// What `audit` says of a database needs one in `tokens`.
    static func checkShipping(of audit: AuditPlan, to tokens: TokenPlan, _ fields: ConfigFields?) {
        guard let fields else { return }
        if audit.store == .postgres, !audit.ships {
            fields.error("ship", "must not be false with \"store: postgres\": remove one of the two")
        }
        guard tokens.store != .postgres else { return }
        if audit.store == .postgres {
            fields.error("store", "\"postgres\" is for \"store: postgres\" of \"tokens\", whose database it uses")
        } else if fields.has("ship") {
            fields.error("ship", "is for \"store: postgres\" of \"tokens\"")
        }
    }

    static func tokens(
        _ fields: ConfigFields?,
        stateDirectory: String,
        readsDatabase: Bool = true
    ) -> TokenPlan {
        var plan = TokenPlan(
            store: .sqlite,
            path: "\(stateDirectory)/tokens.sqlite",
            key: .file(path: "\(stateDirectory)/token.key")
        )
        guard let fields else { return plan }
        fields.explain(tokenMeanings)
        if let store = fields.choice("store", of: TokenPlan.Store.self) { plan.store = store }
        if let path = fields.filePath("path") { plan.path = path }
        if let key = key("key", fields) { plan.key = key }
        encryptionKeys(fields, &plan)
        plan.program = program(fields, of: plan.store)
        if readsDatabase {
            plan.database = database(fields, of: plan.store)
        } else {
            for key in PostgreSQLDecoder.keys { fields.know(key) }
        }
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

    private static func database(_ fields: ConfigFields, of store: TokenPlan.Store) -> PostgreSQLPlan? {
        guard store == .postgres else {
            for key in PostgreSQLDecoder.keys where fields.has(key) {
                // Read all the same, so that it is known as a secret.
                if key == "password" { _ = fields.secret(key) }
                fields.error(key, "is for \"store: postgres\"")
            }
            return nil
        }
        if fields.has("path") { fields.error("path", "is for \"store: sqlite\"") }
        return PostgreSQLDecoder.decode(fields)
    }

    private static func encryptionKeys(_ fields: ConfigFields, _ plan: inout TokenPlan) {
        let names = ["encryption_key", "previous_encryption_key"]
        guard plan.store == .sqlite || plan.store == .postgres else {
            for name in names where fields.has(name) {
                // Read all the same, so that it is known as a secret.
                _ = key(name, fields)
                fields.error(name, "is for \"store: sqlite\" and \"store: postgres\"")
            }
            return
        }
        plan.encryptionKey = key(names[0], fields)
        plan.previousEncryptionKey = key(names[1], fields)
        // A key that each gateway makes for itself would give the same token another name on each.
        if plan.store == .postgres, fields.has(names[0]), !fields.has("key"), case .file(let path) = plan.key {
            fields.error(
                names[0],
                "needs \"key\" beside it, which names the tokens in the database and must be the same on all gateways: add "
                    + "\"key: {file: \(path)}\", and copy that file from one gateway to the others"
            )
        }
        if fields.has(names[1]), !fields.has(names[0]) {
            fields.error(names[1], "says what the store was encrypted with before it got an encryption_key: add that")
        }
    }

    /// A file is not read here: the first run creates it.
    private static func key(_ name: String, _ fields: ConfigFields) -> TokenPlan.Key? {
        if let node = fields.node(name), case .mapping(let entries) = node.content,
            entries.count == 1, entries.first?.key == "file", let source = fields.fields(name)
        {
            return source.requiredFilePath("file").map { .file(path: $0) }
        }
        return fields.secret(name).map { .value($0) }
    }
}
