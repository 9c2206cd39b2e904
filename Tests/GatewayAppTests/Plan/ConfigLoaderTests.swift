import GatewayConfiguration
import GatewayStrategies
import Testing

@testable import GatewayApp

@Suite("Configuration loader", .timeLimit(.minutes(5)))
struct ConfigLoaderTests {
    private func load(_ files: [String: String], environment: [String: String] = [:]) -> ConfigLoader.Loading {
        ConfigLoader(files: MemoryFiles(files), environment: { environment[$0] }).load("gateway.yaml")
    }

    private func text(at keys: String..., in loading: ConfigLoader.Loading) -> ConfigNode.Scalar? {
        var node = loading.document?.root
        for key in keys {
            guard case .mapping(let entries) = node?.content else { return nil }
            node = entries.first { $0.key == key }?.value
        }
        guard case .scalar(let scalar) = node?.content else { return nil }
        return scalar
    }

    @Test func includedFilesAreMergedInLexicalOrder() {
        let loading = load([
            "/work/gateway.yaml": "include: conf.d/*.yaml\nroutes: {a: {}}\n",
            "/work/conf.d/b.yaml": "routes: {c: {}}\n",
            "/work/conf.d/a.yaml": "routes: {b: {}}\naccess: {clients: {x: {}}}\n",
            "/work/conf.d/.hidden.yaml": "routes: {d: {}}\n",
            "/work/conf.d/notes.txt": "routes: {e: {}}\n",
        ])
        #expect(loading.diagnostics.isEmpty)
        #expect(loading.files.map(\.name) == ["gateway.yaml", "conf.d/a.yaml", "conf.d/b.yaml"])
        #expect(loading.files.map(\.directory) == ["/work", "/work/conf.d", "/work/conf.d"])
        guard case .mapping(let entries) = loading.document?.root.content,
            case .mapping(let routes) = entries.first(where: { $0.key == "routes" })?.value.content
        else {
            Issue.record("no routes")
            return
        }
        #expect(routes.map(\.key) == ["a", "b", "c"])
        #expect(routes.map(\.keySpan.file) == [0, 1, 2])
    }

    @Test func aFileThatMatchesItsOwnPatternIsReadOnce() {
        let loading = load([
            "/work/gateway.yaml": "include: '*.yaml'\nroutes: {a: {}}\n", "/work/more.yaml": "routes: {b: {}}\n",
        ])
        #expect(loading.diagnostics.isEmpty)
        #expect(loading.files.map(\.name) == ["gateway.yaml", "more.yaml"])
    }

    private static func place(_ path: String, _ kind: FilePlace.Kind, _ mode: UInt32) -> FilePlace {
        FilePlace(path: path, kind: kind, mode: mode, isOnReadOnlyMount: false)
    }

    private func load(at places: [String: [FilePlace]], strictModes: Bool = false) -> ConfigLoader.Loading {
        var files = MemoryFiles([
            "/work/gateway.yaml": "include: conf.d/*.yaml\nroutes: {a: {}}\n",
            "/work/conf.d/a.yaml": "routes: {b: {}}\n",
            "/work/conf.d/b.yaml": "routes: {c: {}}\n",
        ])
        files.places = places
        return ConfigLoader(files: files, strictModes: strictModes) { _ in nil }.load("gateway.yaml")
    }

    @Test func aFolderThatTheGroupMayWriteToIsOneWarning() {
        let folder = Self.place("/work", .folder, 0o775)
        let places = ["/work/gateway.yaml": [folder], "/work/conf.d/a.yaml": [folder]]
        let loading = load(at: places)
        #expect(loading.document != nil)
        #expect(loading.diagnostics.map(\.severity) == [.warning])
        #expect(loading.diagnostics.map(\.span.file) == [0])
        let strict = load(at: places, strictModes: true)
        #expect(strict.document == nil)
        #expect(strict.diagnostics.map(\.severity) == [.error])
    }

    @Test func whatEverybodyMayWriteToIsNotRead() {
        let main = load(at: ["/work/gateway.yaml": [Self.place("/work/gateway.yaml", .file, 0o666)]])
        #expect(main.document == nil)
        #expect(main.files.map(\.lines) == [[]])
        #expect(main.diagnostics.map(\.message.isEmpty) == [false])
        let included = load(at: ["/work/conf.d/b.yaml": [Self.place("/work/conf.d/b.yaml", .file, 0o606)]])
        #expect(included.document == nil)
        #expect(included.files.map(\.name) == ["gateway.yaml", "conf.d/a.yaml"])
        #expect(included.diagnostics.map(\.span.line) == [1])
    }

    @Test func aStickyFolderIsRefusedWhereAPatternListsIt() {
        let folder = Self.place("/work/conf.d", .folder, 0o1777)
        #expect(load(at: ["/work/conf.d/a.yaml": [folder]]).diagnostics.isEmpty)
        let listed = load(at: ["/work/conf.d/": [folder]])
        #expect(listed.document == nil)
        #expect(listed.files.map(\.name) == ["gateway.yaml"])
    }

    @Test func includesDoNotNest() {
        let loading = load([
            "/work/gateway.yaml": "include: more.yaml\n", "/work/more.yaml": "include: gateway.yaml\n",
        ])
        #expect(loading.diagnostics.map(\.message) == ["an included file cannot include others"])
    }

    @Test func problemsOfAllFilesAreReported() {
        let loading = load([
            "/work/gateway.yaml": "include: [a.yaml, b.yaml]\n", "/work/a.yaml": "x: [\n", "/work/b.yaml": "y: \"\n",
        ])
        #expect(loading.diagnostics.map(\.span.file) == [1, 2])
    }

    @Test func theMainFileMayBeMissing() {
        let loading = load([:])
        #expect(loading.document == nil)
        #expect(loading.diagnostics.map(\.message) == ["no such file; name another"])
    }

    @Test func anIncludedFileThatIsMissingIsNotNamedOnTheCommandLine() {
        let loading = load(["/work/gateway.yaml": "include: lost.yaml\n"])
        #expect(loading.document == nil)
        #expect(loading.diagnostics.map(\.message) == ["lost.yaml: no such file"])
    }

    @Test func variablesAreReplacedInScalarsOnly() {
        let environment = ["HOST": "api.box.com", "EVIL": "x\nroutes: {evil: {}}", "EMPTY": ""]
        let loading = load(
            ["/work/gateway.yaml": "a: https://${HOST}/2.0\nb: ${EVIL}\nc: ${EMPTY:-d}\n${HOST}: $${HOST} $5\n"],
            environment: environment
        )
        #expect(loading.diagnostics.isEmpty)
        #expect(text(at: "a", in: loading)?.text == "https://api.box.com/2.0")
        #expect(text(at: "a", in: loading)?.isInterpolated == true)
        #expect(text(at: "b", in: loading)?.text == environment["EVIL"])
        #expect(text(at: "b", in: loading)?.isReference == true)
        #expect(text(at: "c", in: loading)?.text == "d")
        #expect(text(at: "c", in: loading)?.isInterpolated == false)
        #expect(text(at: "${HOST}", in: loading)?.text == "${HOST} $5")
    }

    @Test func anUnsetVariableIsNotReportedTwice() {
        let files = ["/work/gateway.yaml": "version: 1\nroutes: {a: {upstream: \"${X}\", auth: none}}\n"]
        let outcome = ConfigLoader(files: MemoryFiles(files), environment: { _ in nil })
            .plan(at: "gateway.yaml", catalog: .builtIn, presets: PresetLibrary(), secrets: MemorySecrets())
        #expect(outcome.plan == nil)
        #expect(outcome.diagnostics.map(\.message) == ["the environment variable X is not set"])
        #expect(outcome.diagnostics.first?.span == SourceSpan(file: 0, line: 2, column: 25, length: 4))
    }

    @Test func aNameThatIsDefinedInTwoFilesNamesBothPlaces() {
        let loading = load([
            "/work/gateway.yaml": "include: a.yaml\nlimits: {drain: 1s}\n", "/work/a.yaml": "limits: {drain: 2s}\n",
        ])
        #expect(loading.diagnostics.map(\.message) == ["\"drain\" is defined twice"])
        #expect(loading.diagnostics.first?.span.file == 1)
        #expect(loading.diagnostics.first?.related?.span.file == 0)
    }
}
