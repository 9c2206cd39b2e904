import GatewayCore
import GatewayStrategies
import GatewayYAML
import Testing

@Suite("Changes of a plan", .timeLimit(.minutes(5)))
struct PlanChangeTests {
    private static let before = """
        version: 1
        workers: 2
        access: {clients: {laptop: {token: {env: ONE}}, ci: {token: {env: TWO}}}}
        credentials:
          key: {strategy: bearer, token: {env: ONE}}
          other: {strategy: bearer, token: {env: ONE}}
        routes:
          a: {upstream: https://a.example.com, auth: key}
          b: {upstream: https://b.example.com, auth: other}
        """

    private func digest(_ text: String, secret: String = "secret-1") throws -> PlanDigest {
        let files = MemoryFiles(["/work/gateway.yaml": text])
        let secrets = MemorySecrets(variables: ["ONE": secret, "TWO": "secret-2"])
        let outcome = ConfigLoader(files: files, environment: { secrets.environment($0) })
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: secrets)
        let plan = try #require(outcome.plan, "\(outcome.report(consequence: "refused"))")
        return PlanDigest(plan) { bytes in
            String(
                bytes.reduce(into: UInt64(14_695_981_039_346_656_037)) { hash, byte in
                    hash = (hash ^ UInt64(byte)) &* 1_099_511_628_211
                }
            )
        }
    }

    /// What differs, as `path kind`, without what is kept.
    private func changes(_ edit: (from: String, to: String)...) throws -> [PlanChange] {
        var after = Self.before
        for (from, to) in edit {
            #expect(after.contains(from))
            after = after.replacing(from, with: to)
        }
        return PlanChange.effective(PlanChange.between(try digest(Self.before), try digest(after)))
    }

    private func lines(_ changes: [PlanChange]) -> [String] {
        changes.map { "\($0.path) \($0.kind.rawValue)\($0.needsRestart ? ", restart" : "")" }
    }

    @Test func nothingChangesWithoutAChange() throws {
        let all = PlanChange.between(try digest(Self.before), try digest(Self.before))
        #expect(!all.isEmpty && all.allSatisfy { $0.kind == .kept && $0.notes.isEmpty && !$0.needsRestart })
        #expect(PlanChange.text(all) == "Nothing changes.\n")
    }

    @Test func whereTheTextIsPutDoesNotMatter() throws {
        #expect(try changes(("routes:", "# a remark\n\nroutes:")).isEmpty)
    }

    @Test func routesAreAddedChangedAndDropped() throws {
        let found = try changes(
            ("https://a.example.com", "https://c.example.com"),
            (
                "  b: {upstream: https://b.example.com, auth: other}",
                "  d: {upstream: https://b.example.com, auth: other}"
            )
        )
        #expect(
            lines(found) == ["credentials.other changed", "routes.a changed", "routes.d added", "routes.b dropped"]
        )
        #expect(found[0].notes == ["used by: b -> d"])
        #expect(found[1].notes == ["upstream: https://a.example.com -> https://c.example.com"])
        let text = PlanChange.text(PlanChange.between(try digest(Self.before), try digest(Self.before)) + found)
        #expect(text.contains("~ routes.a changed\n    upstream: https://a.example.com -> https://c.example.com\n"))
        #expect(text.contains("+ routes.d added\n- routes.b dropped\n"))
        #expect(text.hasSuffix("Kept: 2 of the routes and 2 of the credentials.\n"))
    }

    @Test func anotherSecretIsAChangeThatIsNotShown() throws {
        let found = try changes(
            ("other: {strategy: bearer, token: {env: ONE}}", "other: {strategy: bearer, token: {env: TWO}}")
        )
        #expect(lines(found) == ["credentials.other changed"])
        #expect(found.flatMap(\.notes) == ["something that is not shown, such as a secret or a URL"])
    }

    @Test func theSameReferenceWithAnotherValueIsAChange() throws {
        let found = PlanChange.effective(
            PlanChange.between(try digest(Self.before), try digest(Self.before, secret: "rotated"))
        )
        let paths = ["access.clients.laptop", "credentials.key", "credentials.other"]
        #expect(lines(found) == paths.map { "\($0) changed" })
        #expect(!"\(found)".contains("rotated") && !"\(found)".contains("secret-1"))
    }

    @Test func aClientIsDropped() throws {
        #expect(try lines(changes((", ci: {token: {env: TWO}}", ""))) == ["access.clients.ci dropped"])
    }

    @Test(
        "what is decided at the start needs a restart",
        arguments: [
            ("workers: 2", "workers: 3", ["workers changed, restart"]),
            (
                "workers: 2", "state_directory: /other",
                [
                    "state_directory changed, restart", "workers changed, restart", "audit.path changed, restart",
                    "tokens.key changed, restart", "tokens.path changed, restart",
                ]
            ),
            ("workers: 2", "workers: 2\ntokens: {key: {env: ONE}}", ["tokens.key changed, restart"]),
            (
                "workers: 2", "workers: 2\ntokens: {encryption_key: {env: ONE}}",
                ["tokens.encryption_key added, restart"]
            ),
            ("workers: 2", "workers: 2\nlimits: {drain: 5s}", ["limits.drain changed, restart"]),
            ("workers: 2", "workers: 2\nlimits: {connections: 5}", ["limits.connections changed"]),
        ]
    )
    func whatNeedsARestart(_ from: String, _ to: String, _ expected: [String]) throws {
        #expect(try lines(changes((from, to))) == expected)
    }
}
