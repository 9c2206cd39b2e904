import Foundation
import GatewayFiles
import Testing

@Suite("Edited files", .timeLimit(.minutes(5)))
struct EditedFileTests {
    private static func withFolder(_ body: (URL) throws -> Void) throws {
        let folder = URL.temporaryDirectory.appending(path: "edited-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try body(folder)
    }

    @Test func theModeStaysAndNothingIsLeftBeside() throws {
        try Self.withFolder { folder in
            let path = folder.appending(path: "a.yaml").path
            try Data("old".utf8).write(to: URL(filePath: path))
            try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: path)
            let file = try EditedFile.read(path, limit: 10)
            #expect(file.bytes == Array("old".utf8))
            try file.replace(with: Array("new".utf8))
            #expect(try String(contentsOfFile: path, encoding: .utf8) == "new")
            let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
            #expect(mode == 0o640)
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["a.yaml"])
        }
    }

    /// They hold the configuration, and with it secrets at times.
    @Test func theCopiesOfKilledCommandsAreRemovedByTheNext() throws {
        try Self.withFolder { folder in
            let names = [
                "a.yaml", ".a.yaml.\(UUID().uuidString).new", ".a.yaml.mine.new", ".b.yaml.\(UUID().uuidString).new",
            ]
            for name in names { try Data("old".utf8).write(to: folder.appending(path: name)) }
            try EditedFile.read(folder.appending(path: "a.yaml").path, limit: 10).replace(with: Array("new".utf8))
            let left = try FileManager.default.contentsOfDirectory(atPath: folder.path)
            #expect(Set(left) == [names[0], names[2], names[3]])
        }
    }

    @Test func aLinkStaysALink() throws {
        try Self.withFolder { folder in
            let (path, link) = (folder.appending(path: "a").path, folder.appending(path: "b").path)
            try Data("old".utf8).write(to: URL(filePath: path))
            try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "a")
            try EditedFile.read(link, limit: 10).replace(with: Array("new".utf8))
            #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == "a")
            #expect(try String(contentsOfFile: path, encoding: .utf8) == "new")
        }
    }

    @Test func whatWasChangedInTheMeantimeIsKept() throws {
        try Self.withFolder { folder in
            let path = folder.appending(path: "a").path
            try Data("old".utf8).write(to: URL(filePath: path))
            let file = try EditedFile.read(path, limit: 10)
            try Data("theirs".utf8).write(to: URL(filePath: path))
            #expect(throws: PrivateFile.Failure.self) { try file.replace(with: Array("mine".utf8)) }
            #expect(try String(contentsOfFile: path, encoding: .utf8) == "theirs")
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["a"])
        }
    }

    @Test func whatAnotherCommandIsWritingIsKept() throws {
        try Self.withFolder { folder in
            let path = folder.appending(path: "a").path
            try Data("old".utf8).write(to: URL(filePath: path))
            let file = try EditedFile.read(path, limit: 10)
            let lock = try FileLock(path)
            #expect(throws: PrivateFile.Failure.self) { try file.replace(with: Array("mine".utf8)) }
            withExtendedLifetime(lock) {}
            #expect(try String(contentsOfFile: path, encoding: .utf8) == "old")
        }
    }

    @Test func whatIsNotThereOrTooLargeIsSaid() throws {
        try Self.withFolder { folder in
            #expect(throws: BoundedFile.Failure.missing) { try EditedFile.read(folder.path + "/none", limit: 1) }
            try Data("old".utf8).write(to: folder.appending(path: "a"))
            #expect(throws: BoundedFile.Failure.tooLarge) { try EditedFile.read(folder.path + "/a", limit: 2) }
        }
    }
}
