import GatewayConfiguration
package import GatewayHTTP

/// Where tokens are kept between two starts, and the keys of the installation: `tokens`.
package struct TokenPlan: Hashable, Sendable {
    package enum Store: String, CaseIterable, Sendable {
        case memory
        case sqlite
        /// A program that speaks the protocol of docker's credential helpers.
        case command
        /// A database that many gateways share.
        case postgres
    }

    /// Where a key comes from.
    package enum Key: Hashable, Sendable {
        /// Created with mode 0600 when it is not there.
        case file(path: String)
        case value(Secret)
    }

    package var store: Store
    package var path: String
    /// The installation's key: it keys the audit chain and all digests, and encrypts the store as long as that has no
    /// key of its own.
    package var key: Key
    /// The key of the SQLite or PostgreSQL store, where the configuration names one.
    package var encryptionKey: Key?
    /// What the store may still be encrypted with.
    package var previousEncryptionKey: Key?
    /// Set for ``Store/command``.
    package var program: TokenProgram?
    /// Set for ``Store/postgres``.
    package var database: PostgreSQLPlan?
}

/// The keys of `tokens`, and how they are read.
extension TokenPlan {
    static let keys = Keys(TokenPlan(store: .sqlite, path: "", key: .file(path: ""))) {
        $0("store", \.store, .choice, example: "memory")
            .means(
                "Where tokens are stored: in an encrypted file (sqlite), in memory until the process ends "
                    + "(memory), by your own program (command), or in a PostgreSQL database that gateways share "
                    + "(postgres)."
            )
        $0(
            "path",
            default: "tokens.sqlite in state_directory",
            read: { fields, plan in fields.filePath("path").map { plan.path = $0 } },
            shown: { $0.store == .sqlite ? $0.path : nil },
            example: "./state/tokens.sqlite"
        )
        .means("The database, for store: sqlite.")
        $0(
            "key",
            \.key,
            .tokenKey,
            default: "{file: token.key} in state_directory",
            example: "{file: ./state/token.key}"
        )
        .means(
            "The key of the audit log, and of the tokens unless encryption_key is given. The first run makes the file. With store: "
                + "postgres it also names the tokens in the database: all gateways need the same key."
        )
        $0("encryption_key", default: "key", shown: { $0.encryptionKey?.shown }, example: "{env: TOKEN_STORE_KEY}")
            .covers { $0.encryptionKey?.covered ?? [] }
            .means(
                "A key for the token store only, with store: sqlite and store: postgres. authgateway key rotate creates one for sqlite. "
                    + "With store: postgres, key is required as well."
            )
        $0(
            "previous_encryption_key",
            shown: { $0.previousEncryptionKey?.shown },
            example: "{env: OLD_TOKEN_STORE_KEY}"
        )
        .covers { $0.previousEncryptionKey?.covered ?? [] }
        .means(
            "What the store is still encrypted with. The next start encrypts it with encryption_key; for store: postgres, "
                + "authgateway store encrypt does."
        )
        $0.include(TokenProgram.keys, \.program)
        $0.include(PostgreSQLPlan.keys, \.database)
    }

    /// - Parameter readsDatabase: Whether the keys of the database are read, whose password few have.
    static func decode(
        _ fields: ConfigFields?,
        stateDirectory: String,
        readsDatabase: Bool = true
    ) -> TokenPlan {
        var plan = TokenPlan(
            store: keys.defaults.store,
            path: "\(stateDirectory)/tokens.sqlite",
            key: .file(path: "\(stateDirectory)/token.key")
        )
        guard let fields else { return plan }
        keys.read(fields, into: &plan)
        encryptionKeys(fields, &plan)
        plan.program = program(fields, of: plan.store)
        if readsDatabase {
            plan.database = database(fields, of: plan.store)
        } else {
            fields.know(PostgreSQLPlan.keys)
        }
        fields.refuseUnknownKeys()
        return plan
    }

    private static func program(_ fields: ConfigFields, of store: Store) -> TokenProgram? {
        guard store == .command else {
            for key in TokenProgram.keys.names where fields.has(key) {
                fields.error(key, "is for \"store: command\"")
            }
            return nil
        }
        if fields.has("path") { fields.error("path", "is for \"store: sqlite\"") }
        if !fields.has("command") { fields.missing("command") }
        let environment = (fields.valueMap("environment") ?? []).map { TokenProgram.Variable($0.name, $0.value) }
        let timeout =
            fields.duration("timeout", in: .milliseconds(100) ... .seconds(15)) ?? TokenProgram.standardTimeout
        return fields.command("command").map {
            TokenProgram(command: $0, environment: environment, timeout: timeout)
        }
    }

    private static func database(_ fields: ConfigFields, of store: Store) -> PostgreSQLPlan? {
        guard store == .postgres else {
            for key in PostgreSQLPlan.keys.names where fields.has(key) {
                // Read all the same, so that it is known as a secret.
                if key == "password" { _ = fields.secret(key) }
                fields.error(key, "is for \"store: postgres\"")
            }
            return nil
        }
        if fields.has("path") { fields.error("path", "is for \"store: sqlite\"") }
        return PostgreSQLPlan.decode(fields)
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
                "also needs \"key\", which names the tokens in the database and must be the same on all gateways: add "
                    + "\"key: {file: \(path)}\", and copy that file from one gateway to the others"
            )
        }
        if fields.has(names[1]), !fields.has(names[0]) {
            fields.error(names[1], "says what the store was encrypted with before it got an encryption_key: add that")
        }
    }

    /// A file is not read here: the first run creates it.
    fileprivate static func key(_ name: String, _ fields: ConfigFields) -> Key? {
        if let node = fields.node(name), case .mapping(let entries) = node.content,
            entries.count == 1, entries.first?.key == "file", let source = fields.fields(name)
        {
            return source.requiredFilePath("file").map { .file(path: $0) }
        }
        return fields.secret(name).map { .value($0) }
    }
}

extension TokenPlan.Key {
    fileprivate var shown: String { if case .file(let path) = self { path } else { "***" } }
    /// The path of a file is shown.
    fileprivate var covered: [any CanonicalValue] { if case .value(let key) = self { [key] } else { [] } }
}

extension KeyKind where Value == TokenPlan.Key {
    fileprivate static var tokenKey: Self {
        KeyKind {
            TokenPlan.key($1, $0)
        } text: {
            $0.shown
        } covering: {
            $0.covered
        }
    }
}

extension TokenProgram {
    fileprivate static let standardTimeout = Duration.seconds(10)

    /// What `tokens` says of the program, for `store: command`.
    fileprivate static let keys = Keys(TokenProgram?.none) {
        $0("command", shown: { $0?.command.joined(separator: " ") }, example: "[docker-credential-pass]")
            .covers { $0.map { [$0.command] } ?? [] }
            .means(
                "The program that keeps tokens, for store: command. It speaks the protocol of docker's credential helpers."
            )
        $0(
            "environment",
            default: "{}",
            example: "PASSWORD_STORE_DIR: /var/lib/pass\nPASS_TOKEN: {env: PASS_TOKEN}"
        )
        // Their order says nothing.
        .covers {
            $0.map { $0.environment.isEmpty ? [] : [$0.environment.sorted { $0.name < $1.name }] } ?? []
        }
        .means("Environment variables for that program, in addition to PATH, HOME and a few more.")
        $0("timeout", default: ConfigUnits.text(standardTimeout), example: "5s")
            .covers { $0.map { [$0.timeout] } ?? [] }
            .means("Maximum time for one call of that program.")
    }
}

/// The keys of `tokens` for `store: postgres`.
extension PostgreSQLPlan {
    /// What `tokens` says of the database, for `store: postgres`.
    fileprivate static let keys = Keys(PostgreSQLPlan?.none) {
        $0(
            "url",
            shown: { $0?.url.description },
            example: "postgresql://authgateway@db.example.com/authgateway"
        )
        .covers { $0.map { [$0.url] } ?? [] }
        .means(
            "The database, for store: postgres. TLS is verified unless the host is this machine (sslmode=verify-full)."
        )
        $0(
            "listen_url",
            default: "url",
            shown: { $0?.listenURL?.description },
            example: "postgresql://authgateway@db.example.com:5432/authgateway"
        )
        .covers { ($0?.listenURL).map { [$0] } ?? [] }
        .means("The same server without a pooler in between, so that changes of other gateways arrive at once.")
        $0(
            "password",
            default: "that of the URL, or of a password file",
            example: "{file: ./secrets/database-password}"
        )
        .covers { ($0?.password).map { [$0] } ?? [] }
        .means("The password of the role in url and listen_url.")
        $0(
            "ca",
            default: "those of the system",
            shown: { $0?.authorities },
            example: "/etc/authgateway/database-ca.pem"
        )
        .means("The file with the certificate authorities that the certificate of the database must come from, in PEM.")
        // It only says which URLs are accepted.
        $0("allow_unverified", default: "false", example: "true")
            .covers { _ in [] }
            .means("Accepts an sslmode below verify-full for another machine, which can then be imitated.")
    }

    fileprivate static func decode(_ fields: ConfigFields) -> PostgreSQLPlan? {
        if !fields.has("url") { fields.missing("url") }
        let allowsUnverified = fields.bool("allow_unverified") ?? false
        let password = fields.secret("password")
        fields.refuseNothing(behind: "ca", hint: "for the system's certificate authorities")
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
                    + "file of its CA as \"ca\"), or accept it with \"allow_unverified: true\""
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
