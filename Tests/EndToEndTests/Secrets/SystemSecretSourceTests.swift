import Foundation
import GatewayHTTP
import Testing

@testable import GatewayApp

@Suite("Secrets of this machine", .timeLimit(.minutes(5)))
struct SystemSecretSourceTests {
    private func withFolder<Result>(_ body: (URL) throws -> Result) throws -> Result {
        let folder = FileManager.default.temporaryDirectory.appending(path: "secrets-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        return try body(folder)
    }

    private func write(_ text: String, to file: URL, mode: Int = 0o600) throws {
        try Data(text.utf8).write(to: file)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file.path)
    }

    private func message(_ body: () throws -> Secret) -> String? {
        do {
            _ = try body()
            return nil
        } catch {
            return (error as? UnusableInput)?.message
        }
    }

    @Test func aReloadNamesTheProcessThatLacksTheVariable() {
        #expect(source.unset("KEY") == "the environment variable KEY is not set")
        let running = SystemSecretSource(environment: [:], isReload: true)
        let process = ProcessInfo.processInfo.processIdentifier
        #expect(
            running.unset("KEY").contains(
                "KEY is not set in the environment of the running gateway (process \(process))"
            )
        )
    }

    private let source = SystemSecretSource(environment: ["PATH": "/usr/bin:/bin", "NAME": "value"])

    @Test func theNewlineAtTheEndOfAFileIsNoPartOfTheSecret() throws {
        try withFolder { folder in
            let file = folder.appending(path: "token")
            try write("abc\n\n", to: file)
            #expect(try source.file(file.path) == Secret("abc\n"))
        }
    }

    @Test(arguments: [0o640, 0o604, 0o644, 0o660])
    func aFileThatOthersMayReadIsRefused(_ mode: Int) throws {
        try withFolder { folder in
            let file = folder.appending(path: "token")
            try write("hunter2", to: file, mode: mode)
            let message = message { try source.file(file.path) }
            #expect(message?.contains("chmod 600 \(file.path)") == true)
            #expect(message?.contains("hunter2") == false)
        }
    }

    @Test func whatIsNoSmallRegularFileIsRefusedWithoutWaiting() throws {
        try withFolder { folder in
            let (pipe, large) = (folder.appending(path: "pipe"), folder.appending(path: "large"))
            let made = unsafe mkfifo(pipe.path, 0o600)
            #expect(made == 0)
            try write(String(repeating: "x", count: 65 << 10), to: large)
            #expect(message { try source.file(pipe.path) }?.hasSuffix("not a regular file") == true)
            #expect(message { try source.file(folder.path) }?.hasSuffix("not a regular file") == true)
            #expect(message { try source.file(large.path) }?.hasSuffix("too large") == true)
            #expect(message { try source.file("/nowhere/token") }?.hasSuffix("no such file") == true)
        }
    }

    @Test func aProgramIsRunWithoutAShell() throws {
        #expect(
            try source.program(SecretProgram(["echo", "$NAME; `id`"], timeout: .seconds(10))) == Secret("$NAME; `id`")
        )
    }

    @Test func aProgramSeesLittleOfTheEnvironmentAndWhatIsNamedForIt() throws {
        let program = SecretProgram(["env"], environment: ["STATED": Secret("yes")], timeout: .seconds(10))
        let printed = try source.program(program)
        #expect([Secret("PATH=/usr/bin:/bin\nSTATED=yes"), Secret("STATED=yes\nPATH=/usr/bin:/bin")].contains(printed))
    }

    @Test func aProgramThatFailsSaysHowAndNotWhatItPrinted() {
        let failing = message {
            try source.program(SecretProgram(["sh", "-c", "echo hunter2; exit 3"], timeout: .seconds(10)))
        }
        #expect(failing == "sh exited with status 3; run it by hand to see why")
        let missing = message { try source.program(SecretProgram(["/nowhere/program"], timeout: .seconds(10))) }
        #expect(missing?.hasPrefix("/nowhere/program cannot be started: ") == true)
    }

    @Test func aProgramThatDoesNotEndIsKilledWithItsChildren() throws {
        let clock = ContinuousClock()
        let elapsed = clock.measure {
            let waiting = message {
                try source.program(SecretProgram(["sh", "-c", "sleep 60 & sleep 60"], timeout: .milliseconds(200)))
            }
            #expect(waiting == "sh did not exit within 200ms")
        }
        #expect(elapsed < .seconds(30))
    }

    @Test func aProgramThatPrintsTooMuchIsStopped() {
        let message = message { try source.program(SecretProgram(["yes"], timeout: .seconds(30))) }
        #expect(message == "yes printed too much")
    }

    @Test func aSystemdCredentialComesFromItsFolder() throws {
        try withFolder { folder in
            try write("abc", to: folder.appending(path: "box"), mode: 0o400)
            let source = SystemSecretSource(environment: ["CREDENTIALS_DIRECTORY": folder.path])
            #expect(try source.systemdCredential("box") == Secret("abc"))
            #expect(
                message { try source.systemdCredential("../box") } == "the name of a systemd credential has no slash"
            )
        }
        #expect(message { try source.systemdCredential("box") }?.hasPrefix("CREDENTIALS_DIRECTORY is not set") == true)
    }

    @Test func usersAreFoundByName() {
        #expect(source.userID(ofName: "root") == 0)
        #expect(source.userID(ofName: "no-such-user-here") == nil)
    }

    // MARK: Bounds

    @Test func theSizeOfASecretFileIsLimited() throws {
        try withFolder { folder in
            let file = folder.appending(path: "token")
            let longest = String(repeating: "x", count: SystemSecretSource.largestSecret)
            try write(longest, to: file)
            #expect(try source.file(file.path) == Secret(longest))
            try write(longest + "x", to: file)
            #expect(message { try source.file(file.path) }?.hasSuffix("too large") == true)
        }
    }

    @Test func theOutputOfAProgramIsLimited() throws {
        func print(_ count: Int) throws(UnusableInput) -> Secret {
            let command = "head -c \(count) /dev/zero | tr '\\0' x"
            return try source.program(SecretProgram(["sh", "-c", command], timeout: .seconds(30)))
        }
        let most = SystemSecretSource.largestSecret
        #expect(try print(most) == Secret(String(repeating: "x", count: most)))
        #expect(message { try print(most + 1) } == "sh printed too much")
    }
}
