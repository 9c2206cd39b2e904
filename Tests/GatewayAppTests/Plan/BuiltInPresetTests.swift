import Foundation
import GatewayConfiguration
import GatewayHTTP
import GatewayStrategies
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayApp
@testable import GatewayProxy

/// The presets that come with the program: `Sources/CPresets`.
@Suite("Built-in presets", .timeLimit(.minutes(5)))
struct BuiltInPresetTests {
    private static let source = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Sources/CPresets")

    private static let files: [String] = {
        let names = try? FileManager.default.contentsOfDirectory(atPath: source.appending(path: "presets").path)
        return (names ?? []).sorted()
    }()

    private static func load(_ file: String) throws -> (presets: [Preset], diagnostics: [ConfigDiagnostic]) {
        PresetLoader.load(Array(try Data(contentsOf: source.appending(path: "presets/\(file)"))), named: file)
    }

    /// Empty where a file cannot be read, which another test says.
    private static let presets = files.flatMap { (try? load($0).presets) ?? [] }

    // MARK: The files

    @Test func theListOfFilesIsThatOfTheFolder() throws {
        let text = try String(contentsOf: Self.source.appending(path: "presets.c"), encoding: .utf8)
        let listed = text.matches(of: /#embed "presets\/(.+)"/).map { String($0.output.1) }
        #expect(listed == Self.files)
    }

    @Test(arguments: files)
    func aFileHoldsThePresetsOfItsService(_ file: String) throws {
        let (presets, diagnostics) = try Self.load(file)
        #expect(diagnostics == [])
        #expect(!presets.isEmpty)
        let names = presets.map(\.name)
        #expect(names == names.sorted())
        let service = String(file.dropLast(".yaml".count))
        #expect(file.hasSuffix(".yaml"))
        for name in names {
            #expect(name == service || name.hasPrefix("\(service)-"), "\(name)")
            #expect(try /[a-z0-9]+(-[a-z0-9]+)*/.wholeMatch(in: name) != nil, "\(name)")
        }
    }

    @Test func namesAreUniqueAndMany() {
        #expect(Set(Self.presets.map(\.name)).count == Self.presets.count)
        #expect(Self.presets.count >= 60)
    }

    /// The program reads single presets of one text.
    @Test func eachCanBeReadWithoutTheOthers() throws {
        let parts = try Self.files.map { try Data(contentsOf: Self.source.appending(path: "presets/\($0)")) }
        let whole = Array(parts.joined())
        let library = PresetLibrary { whole }
        #expect(library.names == Self.presets.map(\.name).sorted())
        for preset in Self.presets {
            let read = try #require(library[preset.name])
            #expect(read.text == preset.text)
            #expect(read.credential.canonicalText == preset.credential.canonicalText)
            #expect(read.routes.map(\.node.canonicalText) == preset.routes.map(\.node.canonicalText))
        }
        #expect(library["nothing"] == nil)
    }

    // MARK: What a preset says

    @Test(arguments: presets)
    func itLeadsToPagesOverHTTPS(_ preset: Preset) {
        for page in [preset.docs] + preset.secrets.compactMap(\.where) {
            #expect(page.hasPrefix("https://"), "\(page)")
        }
    }

    @Test(arguments: presets)
    func itExplainsTheVariablesThatItReads(_ preset: Preset) {
        let nodes = [preset.credential] + preset.routes.map(\.node)
        #expect(Set(nodes.flatMap(Self.variables)) == Set(preset.secrets.map(\.variable)))
    }

    @Test(arguments: presets)
    func theListForProgramsSaysItsStrategy(_ preset: Preset) throws {
        let listed = try JSONDecoder().decode(Listed.self, from: JSONEncoder().encode(preset))
        #expect(StrategyCatalog.builtIn.kinds.contains(listed.strategy))
    }

    @Test(arguments: presets)
    func itShowsWhoseCredentialItIsOrSaysWhyNot(_ preset: Preset) {
        let asks = preset.routes.contains { Self.value("whoami", of: $0.node) != nil }
        let explains = preset.note?.contains("There is no whoami request, because") == true
        #expect(asks != explains)
    }

    /// A model that does not stream can think for minutes before it sends a byte.
    @Test(arguments: presets.filter { $0.words.contains("ai") && !["deepl", "pinecone"].contains($0.name) })
    func aModelHasTimeToThink(_ preset: Preset) {
        let timeouts = preset.routes.compactMap { Self.value("timeouts", of: $0.node)?.canonicalText }
        #expect(timeouts.count == 1 && timeouts.allSatisfy { $0.matches(of: /10m/).count == 2 }, "\(timeouts)")
    }

    @Test(arguments: presets)
    func eachRouteIsEncrypted(_ preset: Preset) {
        for route in preset.routes {
            guard case .scalar(let upstream)? = Self.value("upstream", of: route.node)?.content else {
                Issue.record("\(route.name) has no upstream")
                continue
            }
            #expect(upstream.text.hasPrefix("https://"))
            #expect(Self.value("allow_plaintext", of: route.node) == nil)
        }
    }

    @Test func mcpServersAreNamed() throws {
        let library = PresetLibrary(Self.presets)
        #expect(library.mcpServers == ["atlassian", "github", "linear", "notion", "sentry"])
        #expect(library["linear"]?.mcp?.text == "https://mcp.linear.app/mcp")
        let shown = try #require(library["linear"]?.text)
        #expect(shown.contains("MCP server:     https://mcp.linear.app/mcp (authgateway add mcp linear)\n"))
        let servers = Self.presets.compactMap(\.mcp)
        #expect(servers.allSatisfy { $0.origin.scheme == .https && !$0.origin.isLoopback })
        // Streams of events are silent for minutes.
        let keyed = try #require(library["github-mcp"]?.routes.first?.node)
        #expect(Self.value("timeouts", of: keyed)?.canonicalText.contains("10m") == true)
    }

    // MARK: What becomes of it

    /// As `check --no-secrets` does, for what `authgateway add` writes.
    @Test(arguments: presets)
    func whatIsAddedForItIsValid(_ preset: Preset) throws {
        let needed = preset.parameters.filter { $0.defaultValue == nil }.map { ($0.name, $0.example) }
        try check(preset, with: Dictionary(uniqueKeysWithValues: needed))
        try check(preset, with: Dictionary(uniqueKeysWithValues: preset.parameters.map { ($0.name, $0.example) }))
    }

    private func check(_ preset: Preset, with parameters: [String: String]) throws {
        let entries = PresetEntries(preset, as: "mine", parameters: parameters)
        let files = MemoryFiles(["/work/gateway.yaml": "version: 1\n" + entries.text])
        let loader = ConfigLoader(files: files, placeholder: "unset") { _ in nil }
        let outcome = loader.plan(
            at: "gateway.yaml",
            catalog: .builtIn,
            presets: PresetLibrary(Self.presets),
            secrets: UnreadSecrets()
        )
        #expect(outcome.isValid && outcome.diagnostics == [], "\(outcome.report(consequence: "refused"))")
        // Of a credential that cannot be made without its secret there is no plan.
        guard let strategy = preset.strategy, ["basic", "bearer", "header"].contains(strategy) else { return }
        let plan = try #require(outcome.plan)
        #expect(plan.credentials.map(\.strategyKind) == [strategy])
        #expect(plan.routes.map(\.name) == entries.routes.map(\.name))
    }

    /// A part of what `authgateway presets list --json` prints.
    private struct Listed: Decodable { let strategy: String }

    // MARK: Nodes

    private static func value(_ key: String, of node: ConfigNode) -> ConfigNode? {
        guard case .mapping(let entries) = node.content else { return nil }
        return entries.first { $0.key == key }?.value
    }

    /// The names in `{env: NAME}`, at any depth.
    private static func variables(of node: ConfigNode) -> [String] {
        switch node.content {
        case .scalar: return []
        case .sequence(let nodes): return nodes.flatMap(variables)
        case .mapping(let entries):
            if entries.count == 1, entries[0].key == "env", case .scalar(let name) = entries[0].value.content {
                return [name.text]
            }
            return entries.flatMap { variables(of: $0.value) }
        }
    }
}

extension Preset: CustomTestStringConvertible {
    public var testDescription: String { name }
}
