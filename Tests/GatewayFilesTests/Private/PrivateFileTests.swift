import Foundation
import GatewayFiles
import Testing

@Suite("Private files", .timeLimit(.minutes(5)))
struct PrivateFileTests {
    let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    @Test func aFileIsMadeInADirectoryOfItsOwn() throws {
        try PrivateFile.ensure(directory.file("a/b/file"))
        #expect(try directory.mode(of: "a") == 0o700)
        #expect(try directory.mode(of: "a/b") == 0o700)
        #expect(try directory.mode(of: "a/b/file") == 0o600)
    }

    @Test(arguments: [(false, 0o600), (true, 0o640)])
    func theModeOfAFileIsCorrectedOrKept(_ keepsMode: Bool, _ expected: Int) throws {
        try directory.write("content", to: "file", mode: 0o640)
        try PrivateFile.ensure(directory.file("file"), keepsMode: keepsMode)
        #expect(try directory.mode(of: "file") == expected)
        #expect(try directory.text(of: "file") == "content")
    }

    @Test func aLinkIsFollowedOnlyWhereTheModeIsKept() throws {
        try directory.write("content", to: "real", mode: 0o640)
        try FileManager.default.createSymbolicLink(atPath: directory.file("link"), withDestinationPath: "real")
        let error = #expect(throws: PrivateFile.Failure.self) { try PrivateFile.ensure(directory.file("link")) }
        #expect(error?.reason == "it is a symbolic link; name the file itself")
        try PrivateFile.ensure(directory.file("link"), keepsMode: true)
        #expect(try directory.mode(of: "real") == 0o640)
    }

    @Test func whatKeepsAUserOutIsNamedWithTheCommandThatHelps() {
        func barrier(isFolder: Bool = true, isOwn: Bool = false, code: Int32 = 13) -> FileBarrier {
            FileBarrier(place: "/the log", isFolder: isFolder, isOwn: isOwn, user: 65534, code: code)
        }
        #expect(barrier().text == "this user (uid 65534) cannot create files in /the log")
        #expect(barrier().command == "chown 65534 '/the log'")
        #expect(barrier().advice.hasSuffix("; run as root: chown 65534 '/the log'"))
        #expect(barrier(isOwn: true).advice.hasSuffix("; run: chmod u+rwx '/the log'"))
        #expect(barrier(isFolder: false).text == "this user (uid 65534) cannot write to /the log")
        #expect(barrier(isFolder: false, isOwn: true).command == "chmod u+rw '/the log'")
        #expect(barrier(code: 20).text.hasPrefix("this user (uid 65534) cannot create files in /the log: "))
        #expect(barrier(code: 20).command == nil)
    }

    @Test func nothingIsInTheWayWhereFoldersCanBeCreated() throws {
        let path = directory.file("a/b/file")
        #expect(FileBarrier(toCreate: path) == nil)
        #expect(FileBarrier(toCreateFolder: path)?.place == directory.file("a/b"))
        try directory.write("content", to: "file", mode: 0o600)
        #expect(FileBarrier(toWrite: directory.file("file")) == nil)
        let within = FileBarrier(toCreate: directory.file("file/x"))
        #expect(within?.place == directory.file("file") && within?.command == nil)
    }

    @Test func aFolderIsThisUsersAlone() throws {
        try PrivateFile.ensureFolder(directory.file("a/b"))
        #expect(try directory.mode(of: "a") == 0o700 && directory.mode(of: "a/b") == 0o700)
        try PrivateFile.ensureFolder(directory.file("a/b"))
        let manager = FileManager.default
        try manager.createSymbolicLink(atPath: directory.file("link"), withDestinationPath: "a")
        try directory.write("content", to: "file", mode: 0o600)
        for mode in [0o770, 0o702] {
            try manager.setAttributes([.posixPermissions: mode], ofItemAtPath: directory.file("a/b"))
            #expect(throws: PrivateFile.Failure.self) { try PrivateFile.ensureFolder(directory.file("a/b")) }
        }
        for name in ["link", "file", "file/x"] {
            #expect(throws: PrivateFile.Failure.self) { try PrivateFile.ensureFolder(directory.file(name)) }
        }
    }

    @Test func whatIsThereIsNotCreatedAgain() throws {
        let path = directory.file("a/file")
        try PrivateFile.create(path, content: Array("first".utf8))
        try PrivateFile.create(path, content: Array("second".utf8))
        #expect(try directory.text(of: "a/file") == "first")
        #expect(try directory.mode(of: "a/file") == 0o600)
        #expect(PrivateFile.names(beside: path) == ["file"])
    }

    @Test func aNewFileIsNoFileOfSomebodyElse() throws {
        let path = directory.file("a/file")
        try PrivateFile.createNew(path, content: Array("first".utf8))
        let error = #expect(throws: PrivateFile.Failure.self) {
            try PrivateFile.createNew(path, content: Array("second".utf8))
        }
        #expect(error?.reason == "it already exists")
        #expect(try directory.text(of: "a/file") == "first")
        #expect(PrivateFile.names(beside: path) == ["file"])
    }

    @Test func aFileIsReplacedWhole() throws {
        let path = directory.file("file")
        try directory.write("first", to: "file", mode: 0o644)
        let before = FileIdentity(path)
        try PrivateFile.replace(path, with: Array("second".utf8))
        #expect(try directory.text(of: "file") == "second")
        #expect(try directory.mode(of: "file") == 0o600)
        #expect(FileIdentity(path) != before)
        #expect(PrivateFile.names(beside: path) == ["file"])
    }

    @Test func aFileThatNeedNotLastIsReplacedWholeToo() throws {
        let path = directory.file("file")
        try directory.write("first", to: "file", mode: 0o644)
        try PrivateFile.replace(path, with: Array("second".utf8), lasts: false)
        #expect(try directory.text(of: "file") == "second")
        #expect(try directory.mode(of: "file") == 0o600)
        #expect(PrivateFile.names(beside: path) == ["file"])
    }

    @Test func whatCannotBeReplacedLeavesNothingBehind() throws {
        try FileManager.default.createDirectory(atPath: directory.file("folder/sub"), withIntermediateDirectories: true)
        #expect(throws: PrivateFile.Failure.self) {
            try PrivateFile.replace(directory.file("folder"), with: Array("content".utf8))
        }
        #expect(PrivateFile.names(beside: directory.file("folder")) == ["folder"])
        let error = #expect(throws: PrivateFile.Failure.self) {
            try PrivateFile.replace(directory.file("lost/file"), with: [])
        }
        #expect(error?.reason == "no such file or directory")
    }

    @Test func leftoversOfOneFileGoAway() throws {
        let others = ["file", "file.new", "file.1.new", "file.other", "other.\(UUID().uuidString).new", "file1.2.new"]
        for name in others + ["file.\(UUID().uuidString).new"] {
            try directory.write("", to: name, mode: 0o600)
        }
        PrivateFile.removeLeftovers(of: directory.file("file"))
        let left = PrivateFile.names(beside: directory.file("file")).sorted()
        #expect(left == others.sorted())
    }

    struct Refusal: Sendable {
        let mode: Int
        let size: Int
        let reason: String?
    }

    @Test(arguments: [
        Refusal(mode: 0o600, size: 8, reason: nil), Refusal(mode: 0o400, size: 0, reason: nil),
        Refusal(mode: 0o600, size: 9, reason: "too large"), Refusal(mode: 0o640, size: 1, reason: "chmod 600"),
        Refusal(mode: 0o602, size: 1, reason: "chmod 600"),
    ])
    func aSecretIsReadFromItsOwnersFileOnly(_ refusal: Refusal) throws {
        try directory.write(String(repeating: "s", count: refusal.size), to: "secret", mode: refusal.mode)
        do throws(PrivateFile.Failure) {
            let bytes = try PrivateFile.readSecret(directory.file("secret"), limit: 8)
            #expect(refusal.reason == nil && bytes?.count == refusal.size)
        } catch {
            #expect(refusal.reason.map { error.reason.contains($0) } == true)
        }
    }

    @Test func aSecretThatIsNoFileIsRefused() throws {
        #expect(try PrivateFile.readSecret(directory.file("missing"), limit: 8) == nil)
        let error = #expect(throws: PrivateFile.Failure.self) {
            try PrivateFile.readSecret(directory.path, limit: 8)
        }
        #expect(error?.reason == "not a regular file")
    }

    @Test func anIdentityIsOfTheFileAndAVersionOfItsContent() throws {
        let path = directory.file("file")
        #expect(FileIdentity(path) == nil)
        #expect(FileVersion(path) == nil)
        try directory.write("first", to: "file", mode: 0o600)
        let (identity, version) = (FileIdentity(path), FileVersion(path))
        #expect(identity != nil && FileVersion(path) == version)
        let handle = try #require(FileHandle(forWritingAtPath: path))
        try handle.write(contentsOf: Data("a longer content".utf8))
        try handle.close()
        #expect(FileIdentity(path) == identity)
        #expect(FileVersion(path) != version)
        #expect(FileStatus.owner(of: path) == geteuid())
        #expect(FileStatus.owner(of: directory.file("missing")) == nil)
    }
}
