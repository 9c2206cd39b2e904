import Foundation
import GatewayConfiguration
import GatewayStrategies
import Testing

@testable import GatewayApp

/// Every file of `examples/errors` produces exactly the text beside it.
///
/// After a deliberate change run with `UPDATE_EXPECTED=1` and read the difference.
@Suite("Broken configurations", .timeLimit(.minutes(5)))
struct BrokenConfigTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "examples/errors")

    static let names: [String] = {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
        return names.filter { $0.hasSuffix(".yaml") }.sorted()
    }()

    private static let variables = ["BOX_CLIENT_ID": "the-id", "BOX_CLIENT_SECRET": "the-secret"]

    private static func report(_ name: String) -> String {
        let loader = ConfigLoader(files: FolderFiles(folder: folder.path), environment: { variables[$0] })
        let secrets = MemorySecrets(variables: variables)
        let outcome = loader.plan(at: name, catalog: .builtIn, presets: PresetLibrary(), secrets: secrets)
        #expect((outcome.plan == nil) == outcome.diagnostics.contains { $0.severity == .error })
        return outcome.report(consequence: "nothing was started")
    }

    @Test(arguments: names)
    func everyBrokenConfigurationIsExplained(_ name: String) throws {
        let text = Self.report(name)
        let file = Self.folder.appending(path: name.replacing(".yaml", with: ".expected"))
        if ProcessInfo.processInfo.environment["UPDATE_EXPECTED"] != nil {
            try text.write(to: file, atomically: true, encoding: .utf8)
        }
        #expect(try text == String(contentsOf: file, encoding: .utf8))
    }

    @Test func thereAreEnoughOfThem() {
        #expect(Self.names.count >= 25)
    }

    @Test(arguments: names)
    func noSecretIsShown(_ name: String) {
        let text = Self.report(name)
        for secret in ["hunter2", "hunter3", "hunter4", "the-secret"] { #expect(!text.contains(secret)) }
    }
}

struct FolderFiles: ConfigFileSource {
    let folder: String

    func absolutePath(_ path: String) -> String { path.hasPrefix("/") ? path : "\(folder)/\(path)" }

    func read(_ path: String, limit: Int) throws(ConfigFileError) -> [UInt8] {
        guard let data = FileManager.default.contents(atPath: path) else { throw ConfigFileError("no such file") }
        return Array(data.prefix(limit))
    }

    func names(in folder: String) -> [String] {
        (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
    }
}
