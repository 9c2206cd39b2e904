import Foundation
import GatewayFiles
import Testing

@testable import GatewayApp

@Suite(.timeLimit(.minutes(5)))
struct StateDirectoryTests {
    private func withFolder(_ body: (String) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "state-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try body(folder.path(percentEncoded: false))
    }

    private func mode(_ path: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    }

    @Test func itIsCreatedForItsOwnerOnly() throws {
        try withFolder { folder in
            let state = try StateDirectory(path: "\(folder)/state")
            #expect(try mode(state.path) == 0o700)
            _ = try AdminToken.create(in: state.path)
            #expect(try mode(AdminToken.path(in: state.path)) == 0o600)
            #expect(try mode(state.file("gateway.lock")) == 0o600)
        }
    }

    @Test func aSecondGatewayIsRefusedUntilTheFirstHasGone() throws {
        try withFolder { folder in
            var first: StateDirectory? = try StateDirectory(path: "\(folder)/state")
            let failure = #expect(throws: StateError.self) { _ = try StateDirectory(path: "\(folder)/state") }
            #expect(failure?.description.contains("process \(ProcessInfo.processInfo.processIdentifier)") == true)
            #expect(first?.path == "\(folder)/state")
            first = nil
            _ = try StateDirectory(path: "\(folder)/state")
        }
    }

    @Test func aDirectoryThatOthersMayWriteToIsRefused() throws {
        try withFolder { folder in
            try FileManager.default.createDirectory(atPath: "\(folder)/open", withIntermediateDirectories: false)
            try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: "\(folder)/open")
            let failure = #expect(throws: StateError.self) { _ = try StateDirectory(path: "\(folder)/open") }
            #expect(failure?.description.contains("chmod 700") == true)
        }
    }

    @Test func aTokenIsNewAtEveryStartAndReplacesTheOldOneWhole() throws {
        try withFolder { folder in
            let first = try AdminToken.create(in: folder)
            let second = try AdminToken.create(in: folder)
            #expect(first != second)
            #expect(AdminToken.read(in: folder) == second)
        }
    }

    @Test func aTokenThatIsNotThereReadsAsNone() throws {
        try withFolder { folder in #expect(AdminToken.read(in: folder) == nil) }
    }
}
