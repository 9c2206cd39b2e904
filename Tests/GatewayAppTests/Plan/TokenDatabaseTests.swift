import GatewayApp
import GatewayConfiguration
import GatewayEvents
import GatewayHTTP
import GatewayStrategies
import Testing

@Suite("The token database in the configuration", .timeLimit(.minutes(1)))
struct TokenDatabaseTests {
    private static let secrets = MemorySecrets(
        variables: [
            "PASSWORD": "canary-password", "DATABASE_URL": "postgresql://gateway:canary-password@db.example/tokens",
        ],
        files: [:]
    )

    private func outcome(_ tokens: String, audit: String = "") -> ConfigOutcome {
        let text =
            "version: 1\naudit: {\(audit)}\ntokens: {\(tokens)}\nroutes: {box: {upstream: https://api.box.com, auth: none}}\n"
        let files = MemoryFiles(["/work/gateway.yaml": text])
        return ConfigLoader(files: files, environment: { Self.secrets.environment($0) })
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: Self.secrets)
    }

    private func plan(_ tokens: String) throws -> Plan {
        let outcome = outcome(tokens)
        #expect(outcome.report(consequence: "refused") == "")
        return try #require(outcome.plan)
    }

    @Test func aDatabaseIsReadAndShownWithoutItsPassword() throws {
        let plan = try plan(
            "store: postgres, url: \"postgresql://gateway@db.example,db2.example/tokens\", "
                + "listen_url: \"postgresql://gateway@db.example:5433/tokens\", password: {env: PASSWORD}, ca: db.pem"
        )
        let database = try #require(plan.tokens.database)
        #expect(plan.tokens.store == .postgres)
        #expect(database.url.hosts.map(\.name) == ["db.example", "db2.example"])
        #expect(database.listenURL?.hosts.first?.port == 5433)
        #expect(database.password == Secret("canary-password"))
        #expect(database.authorities == "/work/db.pem")
        let shown = PlanSummary(plan).text()
        #expect(shown.contains("db.example,db2.example/tokens"))
        #expect(!shown.contains("canary"))
    }

    @Test func aURLMayComeWithItsPasswordFromElsewhere() throws {
        let plan = try plan("store: postgres, url: {env: DATABASE_URL}")
        #expect(plan.tokens.database?.url.password == Secret("canary-password"))
        #expect(!PlanSummary(plan).text().contains("canary"))
    }

    @Test func aPasswordInAURLIsASecretInPlainText() throws {
        let outcome = outcome("store: postgres, url: \"postgresql://gateway:canary-password@db.example/tokens\"")
        #expect(outcome.plan != nil)
        let report = outcome.report(consequence: "refused")
        #expect(report.contains("tokens.url: a secret in plain text"))
        #expect(!report.contains("canary"))
    }

    @Test(arguments: [
        ("store: postgres", "missing key \"url\""),
        ("store: postgres, url: \"mysql://db\"", "begins with \"postgresql://\""),
        ("store: postgres, url: \"postgresql://u:a/canary@db\"", "write @ as %40"),
        ("store: postgres, url: \"postgresql://db.example/x?sslmode=require\"", "could pose as db.example"),
        (
            "store: postgres, url: \"postgresql://db.example/x\", listen_url: \"postgresql://db.example/x?sslmode=prefer\"",
            "could pose as"
        ),
        ("store: postgres, url: \"postgresql://db.example/x\", path: x", "tokens.path: is for \"store: sqlite\""),
        ("store: postgres, url: \"postgresql://u:p@db.example/x\", password: {env: PASSWORD}", "keep one of them"),
        (
            "store: postgres, url: \"postgresql://db.example/x\", encryption_key: {env: PASSWORD}",
            "tokens.encryption_key: also needs \"key\""
        ),
        ("store: sqlite, url: \"postgresql://db.example/x\"", "tokens.url: is for \"store: postgres\""),
        ("url: \"postgresql://db.example/x\"", "tokens.url: is for \"store: postgres\""),
    ])
    func aMistakeIsNamed(_ tokens: String, _ words: String) {
        let outcome = outcome(tokens)
        let report = outcome.report(consequence: "refused")
        #expect(outcome.plan == nil)
        #expect(report.contains(words), "\(report)")
        #expect(!report.contains("canary"))
    }

    @Test func anEncryptionKeyBesideTheKeyThatNamesTokensIsAccepted() throws {
        let keys = "key: {file: token.key}, encryption_key: {file: store.key}"
        let plan = try plan("store: postgres, url: \"postgresql://db.example/x\", \(keys)")
        #expect(plan.tokens.encryptionKey == .file(path: "/work/store.key"))
    }

    @Test func aWeakerModeMayBeAccepted() throws {
        let url = "postgresql://db.example/x?sslmode=require"
        #expect(try plan("store: postgres, url: \"\(url)\", allow_unverified: true").tokens.database != nil)
    }

    // MARK: The audit log

    private static let database = "store: postgres, url: \"postgresql://db.example/x\""

    @Test(arguments: [
        ("", AuditPlan.Store.sqlite, true), ("ship: false", .sqlite, false), ("store: postgres", .postgres, true),
        ("store: postgres, ship: true", .postgres, true),
    ])
    func theAuditLogGoesThereToo(_ audit: String, _ store: AuditPlan.Store, _ ships: Bool) throws {
        let outcome = outcome(Self.database, audit: audit)
        #expect(outcome.report(consequence: "refused") == "")
        let plan = try #require(outcome.plan)
        #expect(plan.audit.store == store && plan.audit.ships == ships)
        #expect(PlanSummary(plan).audit["store"] == store.rawValue)
    }

    @Test(arguments: [
        (database, "store: postgres, ship: false", "audit.ship: must not be false with \"store: postgres\""),
        ("store: memory", "store: postgres", "audit.store: \"postgres\" is for \"store: postgres\" of \"tokens\""),
        ("store: memory", "ship: false", "audit.ship: is for \"store: postgres\" of \"tokens\""),
        (database, "store: memory", "audit.store"),
    ])
    func aMistakeOfTheAuditLogIsNamed(_ tokens: String, _ audit: String, _ words: String) {
        let outcome = outcome(tokens, audit: audit)
        let report = outcome.report(consequence: "refused")
        #expect(outcome.plan == nil)
        #expect(report.contains(words), "\(report)")
    }
}
