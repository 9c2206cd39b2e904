import Foundation
import GatewayFiles
import Testing

@Suite("Locked files", .timeLimit(.minutes(5)))
struct FileLockTests {
    let directory: TemporaryDirectory

    init() throws {
        directory = try TemporaryDirectory()
        try directory.write("content", to: "file", mode: 0o600)
    }

    @Test func oneHolderAtATimeHasTheFileWhateverPathLeadsToIt() throws {
        try FileManager.default.createSymbolicLink(atPath: directory.file("link"), withDestinationPath: "file")
        try FileManager.default.linkItem(atPath: directory.file("file"), toPath: directory.file("twin"))
        var lock: FileLock? = try FileLock(directory.file("file"))
        #expect(lock?.identity == FileIdentity(directory.file("twin")))
        for name in ["file", "link", "twin"] {
            #expect(throws: FileLock.Failure.held) { _ = try FileLock(directory.file(name)) }
        }
        lock = nil
        _ = try FileLock(directory.file("twin"))
    }

    @Test func theFileIsReadAndWrittenAsBefore() throws {
        let lock = try FileLock(directory.file("file"))
        try directory.write("other", to: "file", mode: 0o600)
        #expect(try directory.text(of: "file") == "other")
        withExtendedLifetime(lock) {}
    }

    @Test func aFileThatIsNotThereCannotBeLocked() {
        #expect(throws: FileLock.Failure.other(ENOENT)) { _ = try FileLock(directory.file("none")) }
    }
}
