import GatewayConfiguration
import Testing

@testable import GatewayApp

@Suite("How many files there may be", .timeLimit(.minutes(1)))
struct FileCountTests {
    /// The diagnostics of a configuration that includes this many files.
    private static func included(_ count: Int) -> [String] {
        var files = ["/work/gateway.yaml": "version: 1\ninclude: conf.d/*.yaml\n"]
        for number in 0..<count { files["/work/conf.d/\(number).yaml"] = "routes: {r\(number): {}}\n" }
        return ConfigLoader(files: MemoryFiles(files)) { _ in nil }.load("gateway.yaml").diagnostics.map(\.message)
    }

    @Test func theNumberOfIncludedFilesIsLimited() {
        #expect(Self.included(ConfigLoader.maximumFiles - 1) == [])
        #expect(Self.included(ConfigLoader.maximumFiles) == ["more than \(ConfigLoader.maximumFiles) files"])
    }

    /// How many presets are read from a folder with this many files, and the diagnostics.
    private static func presets(_ count: Int) -> (read: Int, messages: [String]) {
        var files = ["/work/gateway.yaml": "version: 1\npresets: ./presets\n"]
        for number in 0..<count {
            files["/work/presets/\(number).yaml"] = """
                own\(number):
                  title: Own
                  docs: https://wiki.acme.example/own
                  read: unverified
                  credential: {strategy: bearer, token: {env: TOKEN}}
                  routes: {api: {upstream: https://own.acme.example}}
                """
        }
        let loader = ConfigLoader(files: MemoryFiles(files)) { _ in nil }
        let own = loader.ownPresets(of: loader.load("gateway.yaml"))
        return (own.library.presets.count, own.diagnostics.map(\.message))
    }

    @Test func theNumberOfPresetFilesIsLimited() {
        let most = ConfigLoader.maximumPresetFiles
        let whole = Self.presets(most)
        #expect(whole.read == most && whole.messages == [])
        let more = Self.presets(most + 1)
        #expect(more.read == most && more.messages.contains { $0.contains("more than \(most) files") })
    }
}
