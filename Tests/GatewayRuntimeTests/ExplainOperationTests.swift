import Foundation
import GatewayStrategies
import Testing

@testable import GatewayCore
@testable import GatewayRuntime

/// The program holds what the decoders know, so that `config explain` need not ask them.
///
/// After a change of the configuration's keys run with `UPDATE_EXPECTED=1` and read the difference.
@Suite("Keys that the program holds", .timeLimit(.minutes(5)))
struct ExplainOperationTests {
    private static let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "schema/keys.json")

    @Test func theFileIsCurrent() throws {
        let text = try JSONText.pretty(ConfigKey.all(.builtIn))
        if ProcessInfo.processInfo.environment["UPDATE_EXPECTED"] != nil {
            try text.write(to: Self.file, atomically: true, encoding: .utf8)
        }
        // Not compared by the macro, whose report of two long texts takes minutes.
        let isCurrent = try String(contentsOf: Self.file, encoding: .utf8) == text
        #expect(isCurrent, "UPDATE_EXPECTED=1 writes schema/keys.json")
    }

    @Test func theProgramHoldsTheFile() throws {
        let kept = try JSONText.pretty(#require(ExplainOperation.kept))
        let isHeld = try String(contentsOf: Self.file, encoding: .utf8) == kept
        #expect(isHeld)
    }
}
