import GatewayStrategies
import Testing

@testable import GatewayApp
@testable import GatewayConfiguration
@testable import GatewayHTTP
@testable import GatewayProxy
@testable import GatewayTokens

/// Every key is explained, and what is said about it is true.
@Suite("Keys of the configuration", .timeLimit(.minutes(5)))
struct ConfigKeyTests {
    private static let keys = ConfigKey.all(.builtIn)
    private static let search = ConfigKeySearch(keys, kinds: StrategyCatalog.builtIn.kinds)

    @Test func everyKeyHasAMeaning() {
        #expect(Self.keys.filter { $0.meaning == nil }.map { "\($0.path) \($0.strategies)" } == [])
        #expect(Self.keys.count > 400)
    }

    @Test func everyMeaningHasAKey() {
        var lost: [String] = []
        func walk(_ node: KeyRecorder.Node, _ path: String) {
            for key in node.meanings.keys where node.children[key] == nil {
                if key == KeyMeaning.anyName, node.values != nil { continue }
                lost.append("\(path).\(key)")
            }
            for (key, child) in node.children { walk(child, "\(path).\(key)") }
            if let items = node.items { walk(items, "\(path)[]") }
            if let values = node.values { walk(values, "\(path).*") }
        }
        walk(ConfigSchema.tree(.builtIn), "")
        walk(ConfigSchema.vendTree(.builtIn), "vend")
        walk(ConfigSchema.downscopeTree(.builtIn), "downscope")
        for type in StrategyCatalog.builtIn.strategies { walk(ConfigSchema.strategyTree(type), type.kind) }
        // What is included is read before the document is decoded.
        #expect(lost == [".include"])
    }

    @Test(arguments: keys.filter { $0.meaning != nil && $0.segments != ["include"] })
    func theExampleIsAccepted(_ key: ConfigKey) throws {
        var lines = try #require(key.example).split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        if let strategy = key.strategies.first { lines.insert("    strategy: \(strategy)", at: 2) }
        let text = lines.joined(separator: "\n") + "\n"
        let loading = ConfigLoader(files: MemoryFiles(["/work/gateway.yaml": text])) { _ in nil }.load("gateway.yaml")
        #expect(loading.diagnostics.map(\.message) == [], "\(text)")
        let document = try #require(loading.document)
        let path = key.path.replacing("[]", with: "[0]")
        let wrong = PlanDecoder.decode(document, catalog: .builtIn, presets: PresetLibrary(), secrets: UnreadSecrets())
            .diagnostics
            .filter { $0.severity == .error && $0.path.description.hasPrefix(path) && !Self.isAboutOthers($0) }
        #expect(wrong.map { "\($0.path): \($0.message)" } == [], "\(text)")
    }

    /// A decoder that takes a scalar or a mapping tells of both, whichever it is asked for first.
    @Test(arguments: [
        ("routes.NAME.whoami", ["method", "path", "shows"]), ("credentials.NAME.renew", ["ahead", "at_least"]),
    ])
    func aKeyWithTwoFormsHasTheKeysBelowIt(_ path: String, _ below: [String]) throws {
        let key = try #require(Self.keys.first { $0.path == path })
        #expect(key.keys == below)
        for name in below {
            let child = try #require(Self.keys.first { $0.path == "\(path).\(name)" })
            #expect(child.meaning != nil)
        }
    }

    private static let othersThatAreMissing = [
        "missing key", "no client is named", "no engine is named", "no preset is named", "no credential is named",
        "is for ",
        "cannot be combined with",
        "belong together", "has no effect", "no client is configured", "nothing is named \"{{unique_id}}\"",
        "which is missing", "is not used: put {{unique_id}}", "tunnel needs", "also needs path and hosts",
        "Box expects",
        "cannot be used here: the token server gets a header field", "no operator can approve these requests",
    ]

    /// An example shows one key: what it needs beside itself is missing.
    private static func isAboutOthers(_ diagnostic: ConfigDiagnostic) -> Bool {
        othersThatAreMissing.contains { diagnostic.message.contains($0) }
    }

    private static let smallest = "routes: {box: {upstream: https://api.box.com, auth: none}}"

    private func plan(_ text: String) -> Plan? {
        ConfigLoader(files: MemoryFiles(["/work/gateway.yaml": "version: 1\n\(text)\n"])) { _ in nil }
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: UnreadSecrets()).plan
    }

    /// They have a meaning beside the URL of a database alone.
    private static let ofDatabase: Set = [
        "tokens.url", "tokens.listen_url", "tokens.password", "tokens.ca", "tokens.allow_unverified", "audit.ship",
    ]

    /// Those that are one value, outside of routes and credentials.
    @Test(arguments: keys.filter { $0.strategies.isEmpty && $0.segments.count <= 2 && $0.standard != nil })
    func theDefaultIsWhatCountsWithoutTheKey(_ key: ConfigKey) throws {
        let standard = try #require(key.standard)
        guard standard != "no limit", !standard.contains("as many as"), !standard.contains("state_directory"),
            standard != "key", standard != "{}",
            key.segments.last != "timeout", !Self.ofDatabase.contains(key.segments.joined(separator: "."))
        else { return }
        // Without its address there is no telemetry.
        let beside = key.segments[0] == "telemetry" ? "otlp: http://127.0.0.1:4318" : nil
        let written =
            key.segments.count == 1
            ? "\(key.segments[0]): \(standard)"
            : "\(key.segments[0]): {\(beside.map { "\($0), " } ?? "")\(key.segments[1]): \(standard)}"
        let rest = beside.map { "\(key.segments[0]): {\($0)}\n\(Self.smallest)" } ?? Self.smallest
        let with = try #require(plan("\(written)\n\(Self.smallest)"), "\(written)")
        let without = try #require(plan(rest))
        #expect(with.stateDirectory == without.stateDirectory, "\(written)")
        #expect(with.workers == without.workers, "\(written)")
        #expect(with.sendsProxyStatus == without.sendsProxyStatus, "\(written)")
        #expect(with.listeners.map(\.address) == without.listeners.map(\.address), "\(written)")
        #expect(with.admin == without.admin, "\(written)")
        #expect(with.access == without.access, "\(written)")
        #expect(with.audit == without.audit, "\(written)")
        #expect(with.tokens == without.tokens, "\(written)")
        #expect(with.limits == without.limits, "\(written)")
        #expect(with.telemetry == without.telemetry, "\(written)")
        #expect(with.localAuthority == without.localAuthority, "\(written)")
    }

    // MARK: Search

    @Test(arguments: [
        ("limits.drain", ["limits.drain"]),
        ("routes.box.upstream", ["routes.NAME.upstream"]),
        ("listeners.proxy[2].address", ["listeners.proxy[].address"]),
        ("methods", ["routes.NAME.allow[].methods"]),
        ("bearer", ["credentials.NAME.expires", "credentials.NAME.token"]),
        ("bearer.token", ["credentials.NAME.token"]),
        ("include", ["include"]),
    ])
    func aKeyIsFoundByItsPathItsEndOrItsStrategy(_ query: String, _ paths: [String]) {
        guard case .found(let keys) = Self.search.find(query) else { return #expect(Bool(false), "\(query)") }
        #expect(keys.map(\.path) == paths)
    }

    @Test(arguments: [
        ("limts.drain", "limits.drain"), ("routes.box.upsteam", "routes.NAME.upstream"), ("drian", "drain"),
        ("bearer.tokn", "bearer.token"), ("oauth2_passwort", "oauth2_password"), ("*", nil), ("", nil),
    ])
    func theKeyThatWasProbablyMeantIsNamed(_ query: String, _ suggestion: String?) {
        #expect(Self.search.find(query) == .unknown(suggestion: suggestion))
    }

    @Test func theTextHasTypeDefaultMeaningAndExample() throws {
        guard case .found(let keys) = Self.search.find("limits.header_bytes") else { throw Missing() }
        #expect(
            keys.first?.text == """
                limits.header_bytes
                  Maximum size of a request or response head.

                  type:     a size from 1KiB to 1MiB
                  default:  32KiB
                  page:     docs/reference/limits.md#limits.header_bytes

                  Example:

                    limits:
                      header_bytes: 64KiB

                """
        )
    }

    @Test(arguments: [
        ("workers", "README.md#workers"), ("routes", "routes.md#routes"),
        ("listeners.proxy[0].tls.ca", "listeners.md#listeners.proxy.tls.ca"),
        ("bearer.token", "strategies/bearer.md#credentials.NAME.token"),
    ])
    func theTextNamesItsPlaceInTheReference(_ query: String, _ place: String) throws {
        guard case .found(let keys) = Self.search.find(query) else { throw Missing() }
        #expect(keys.first?.text.contains("\n  page:     docs/reference/\(place)\n") == true)
    }

    private struct Missing: Error {}
}
