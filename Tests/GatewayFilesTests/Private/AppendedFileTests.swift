import Foundation
import GatewayFiles
import Testing

@Suite("Files that lines are added to", .timeLimit(.minutes(5)))
struct AppendedFileTests {
    let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func add(_ line: String, limit: Int64 = 1000) throws {
        try AppendedFile.add(line, to: directory.file("heads"), limit: limit)
    }

    @Test func aLineStandsBehindTheLastOne() throws {
        try add("one")
        try add("two")
        #expect(try directory.text(of: "heads") == "one\ntwo\n")
        let mode = try FileManager.default.attributesOfItem(atPath: directory.file("heads"))[.posixPermissions] as? Int
        #expect(mode == 0o600)
    }

    @Test func aTornLineIsEnded() throws {
        try directory.write("one\ntw", to: "heads", mode: 0o600)
        try add("three")
        #expect(try directory.text(of: "heads") == "one\ntw\nthree\n")
    }

    @Test func aFileThatIsFullMakesPlace() throws {
        try add("one", limit: 8)
        try add("two", limit: 8)
        try add("three", limit: 8)
        #expect(try directory.text(of: "heads") == "three\n")
        #expect(try directory.text(of: "heads.old") == "one\ntwo\n")
    }

    @Test func theEndIsRead() throws {
        let path = directory.file("heads")
        #expect(try AppendedFile.end(of: path, limit: 8) == [])
        try add("one")
        #expect(try AppendedFile.end(of: path, limit: 8) == Array("one\n".utf8))
        try add("two-and-three")
        #expect(try AppendedFile.end(of: path, limit: 8) == Array("d-three\n".utf8))
        #expect(throws: PrivateFile.Failure("it is not a regular file")) {
            try AppendedFile.end(of: directory.file("."), limit: 8)
        }
    }

    @Test func noFolderIsMade() throws {
        let path = directory.file("mount/heads")
        #expect(throws: PrivateFile.Failure.self) { try AppendedFile.add("one", to: path, limit: 8) }
        #expect(!FileManager.default.fileExists(atPath: directory.file("mount")))
    }

    @Test func whatIsNoFileIsRefused() throws {
        try FileManager.default.createSymbolicLink(atPath: directory.file("heads"), withDestinationPath: "elsewhere")
        #expect(throws: PrivateFile.Failure.self) { try add("one") }
        try FileManager.default.removeItem(atPath: directory.file("heads"))
        #expect(unsafe mkfifo(directory.file("heads"), 0o600) == 0)
        #expect(throws: PrivateFile.Failure("it is not a regular file")) { try add("one") }
    }
}
