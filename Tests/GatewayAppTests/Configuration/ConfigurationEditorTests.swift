import Foundation
import GatewayConfiguration
import Testing

@testable import GatewayApp

/// Which of several files of a configuration is edited.
@Suite(.timeLimit(.minutes(5)))
struct ConfigurationEditorTests {
    /// - Returns: The path of `gateway.yaml`, in a folder of its own.
    private func write(_ files: [String: String], links: [String: String] = [:]) throws -> String {
        let folder = FileManager.default.temporaryDirectory.appending(path: "editor-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        for (name, text) in files { try Data(text.utf8).write(to: folder.appending(path: name)) }
        for (name, target) in links {
            let path = folder.appending(path: name).path(percentEncoded: false)
            try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: target)
        }
        return folder.appending(path: "gateway.yaml").path(percentEncoded: false)
    }

    @Test(arguments: ["inc.yaml, inc.yaml", "inc.yaml, ./inc.yaml", "inc.yaml, link.yaml", "link.yaml, inc.yaml"])
    func theFileOfTheEntryIsEditedWhateverIsIncludedTwice(_ twice: String) throws {
        let other = "routes:\n  other: {upstream: https://other.example, auth: none}\n"
        let main = try write(
            [
                "gateway.yaml": "version: 1\ninclude: [\(twice), b.yaml, c.yaml]\n",
                "inc.yaml": "{}\n",
                "b.yaml": "routes:\n  api: {upstream: https://api.example, auth: none}\n",
                "c.yaml": other,
            ],
            links: ["link.yaml": "inc.yaml"]
        )
        let folder = URL(filePath: main).deletingLastPathComponent()
        defer { try? FileManager.default.removeItem(at: folder) }
        let editor = try ConfigurationEditor(main)
        try editor.remove("api", from: "routes")
        #expect(editor.changedFiles == [folder.appending(path: "b.yaml").path(percentEncoded: false)])
        #expect(editor.difference.contains("-  api: {upstream"))
        try editor.write()
        #expect(try !String(contentsOf: folder.appending(path: "b.yaml"), encoding: .utf8).contains("api"))
        #expect(try String(contentsOf: folder.appending(path: "c.yaml"), encoding: .utf8) == other)
        #expect(try String(contentsOf: folder.appending(path: "inc.yaml"), encoding: .utf8) == "{}\n")
    }
}
