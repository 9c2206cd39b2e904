import Foundation
import GatewayConfiguration
import GatewayStrategies
import Testing

@testable import GatewayApp
@testable import GatewayTools

/// The program holds what the decoders know, so that `config explain` need not ask them.
///
/// After a change of the configuration's keys run `make schema` and read the difference.
@Suite("Keys that the program holds", .timeLimit(.minutes(5)))
struct ConfigCommandTests {
    private static let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "schema/keys.json")

    /// A key on each line, so that a change of one is one line.
    private static func text(_ keys: [ConfigKey]) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let lines = try keys.map { String(decoding: try encoder.encode($0), as: UTF8.self) }
        return "[\n" + lines.joined(separator: ",\n") + "\n]\n"
    }

    @Test func theFileIsCurrent() throws {
        let text = try Self.text(ConfigKey.all(.builtIn))
        if ProcessInfo.processInfo.environment["UPDATE_EXPECTED"] != nil {
            try text.write(to: Self.file, atomically: true, encoding: .utf8)
        }
        // Not compared by the macro, whose report of two long texts takes minutes.
        let isCurrent = try String(contentsOf: Self.file, encoding: .utf8) == text
        #expect(isCurrent, "make schema writes schema/keys.json")
    }

    @Test func theProgramHoldsTheFile() throws {
        let kept = try Self.text(ConfigExplainCommand.kept())
        let isHeld = try String(contentsOf: Self.file, encoding: .utf8) == kept
        #expect(isHeld)
    }
}
