import Foundation
import GatewayHTTP
import Testing

@testable import GatewayApp

/// Where pasted secrets go, and what keeps them out of a repository.
@Suite("Files of pasted secrets", .timeLimit(.minutes(5)))
struct SecretFilesTests {
    /// Removed with the test.
    private final class Folder {
        let path = FileManager.default.temporaryDirectory.appending(path: "secrets-\(UUID().uuidString)")
            .path(percentEncoded: false)

        init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }
        deinit { try? FileManager.default.removeItem(atPath: path) }

        func text(_ name: String) -> String? { try? String(contentsOfFile: "\(path)/\(name)", encoding: .utf8) }
        var hiding: [String] {
            let names = FileManager.default.subpaths(atPath: path) ?? []
            return names.filter { $0.hasSuffix(".gitignore") }.sorted()
        }
    }

    @Test(arguments: [
        ("/state", ["state/.gitignore"]), ("/deep/state", ["deep/state/.gitignore"]),
        // The project itself is not to be ignored.
        ("", ["secrets/.gitignore"]), ("/.", []), ("/x/../state", []),
    ])
    func onlyAFolderWithinTheProjectIsIgnored(_ state: String, _ hiding: [String]) throws {
        let folder = try Folder()
        SecretFiles(stateDirectory: folder.path + state, folder: folder.path).hideFromGit()
        #expect(folder.hiding == hiding)
    }

    @Test func aStateDirectoryElsewhereIsLeftAlone() throws {
        let (folder, other) = (try Folder(), try Folder())
        SecretFiles(stateDirectory: other.path + "/state", folder: folder.path).hideFromGit()
        #expect(folder.hiding == [] && other.hiding == [])
    }

    @Test func aFileOfAPersonStays() throws {
        let folder = try Folder()
        try FileManager.default.createDirectory(atPath: folder.path + "/state", withIntermediateDirectories: true)
        try "mine\n".write(toFile: folder.path + "/state/.gitignore", atomically: true, encoding: .utf8)
        SecretFiles(stateDirectory: folder.path + "/state", folder: folder.path).hideFromGit()
        #expect(folder.text("state/.gitignore") == "mine\n")
    }

    @Test(arguments: [("*\n", true), ("*", true), ("*.sqlite\n", false), ("*\n!secrets\n", false), ("", false)])
    func gitIsSaidToIgnoreWhatItIgnores(_ ignored: String, _ isHidden: Bool) throws {
        let folder = try Folder()
        try FileManager.default.createDirectory(atPath: folder.path + "/state", withIntermediateDirectories: true)
        try ignored.write(toFile: folder.path + "/state/.gitignore", atomically: true, encoding: .utf8)
        var files = SecretFiles(stateDirectory: folder.path + "/state", folder: folder.path)
        _ = try files.add(Secret("canary"), as: "box.TOKEN")
        try files.write { () throws(CommandFailure) in }
        #expect(files.notice.contains("git ignores it") == isHidden)
    }

    @Test func whereASecretWentIsSaidWithoutIt() throws {
        let folder = try Folder()
        var files = SecretFiles(stateDirectory: folder.path + "/state", folder: folder.path)
        #expect(files.notice == "")
        #expect(try files.add(Secret("canary"), as: "box.TOKEN") == "./state/secrets/box.TOKEN")
        try files.write { () throws(CommandFailure) in }
        #expect(folder.text("state/secrets/box.TOKEN") == "canary" && folder.text("state/.gitignore") == "*\n")
        #expect(files.notice.contains("git ignores it:\n  \(folder.path)/state/secrets/box.TOKEN\n"))
        #expect(!files.notice.contains("canary"))
        #expect(files.remove(["box.TOKEN", "never.THERE"]) == ["box.TOKEN"])
        #expect(folder.text("state/secrets/box.TOKEN") == nil)
    }

    @Test func anIssuedSecretIsEncryptedAndReadAsAnyOther() throws {
        let folder = try Folder()
        let path = "\(folder.path)/state/secrets/calc.SECRET"
        var files = SecretFiles(stateDirectory: folder.path + "/state", folder: folder.path, hasKeyFile: true)
        _ = try files.add(Secret("canary"), as: "calc.SECRET", isSealed: true)
        _ = try files.add(Secret("pasted"), as: "box.TOKEN")
        try files.write { () throws(CommandFailure) in }
        #expect(folder.text("state/secrets/calc.SECRET")?.hasPrefix("authgateway-sealed-1 ") == true)
        #expect(folder.text("state/secrets/calc.SECRET")?.contains("canary") == false)
        #expect(folder.text("state/secrets/box.TOKEN") == "pasted")
        let source = SystemSecretSource(environment: [:])
        #expect(try source.file(path) == Secret("canary"))
        // Under another name, or without its key, it is of no use.
        let other = "\(folder.path)/state/secrets/other"
        try FileManager.default.copyItem(atPath: path, toPath: other)
        #expect(throws: UnusableInput.self) { try source.file(other) }
        try FileManager.default.removeItem(atPath: "\(folder.path)/state/token.key")
        let missing = #expect(throws: UnusableInput.self) { try source.file(path) }
        #expect(try #require(missing).message.contains("token.key, which is not there"))
    }

    @Test func whereTheKeyIsElsewhereItIsNotEncrypted() throws {
        let folder = try Folder()
        var files = SecretFiles(stateDirectory: folder.path + "/state", folder: folder.path)
        _ = try files.add(Secret("canary"), as: "calc.SECRET", isSealed: true)
        try files.write { () throws(CommandFailure) in }
        #expect(folder.text("state/secrets/calc.SECRET") == "canary" && folder.text("state/token.key") == nil)
    }
}
