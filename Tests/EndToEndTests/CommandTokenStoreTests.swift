import Crypto
import Foundation
import GatewayHTTP
import GatewayTesting
import GatewayTokenStores
import GatewayTokens
import Testing

@testable import GatewayApp

/// The store `command` with the script of `examples/token-stores`.
@Suite("Token store: command", .timeLimit(.minutes(5)))
struct CommandTokenStoreTests {
    private static let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "examples/token-stores/files.sh").path
    private static let key = SymmetricKey(data: [UInt8](repeating: 7, count: 32))
    private let credential = CredentialKey(digest: "00ff11ee")
    private let token = StoredToken(
        generation: 3,
        token: TokenSet(
            access: Secret("canary-access"),
            extras: ["device": Secret("canary-device")],
            obtainedAt: UnixTime(milliseconds: 5)
        )
    )

    private static func store(_ command: [String], folder: String = "/") -> CommandTokenStore {
        let program = TokenProgram(
            command: command,
            environment: [TokenProgram.Variable("TOKEN_FOLDER", Secret(folder))],
            timeout: .seconds(10)
        )
        return CommandTokenStore(program: program, runner: SystemProgramRunner(), key: key)
    }

    private func withFolder(_ body: (URL) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "store-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await body(folder))
        } catch {
            outcome = .failure(error)
        }
        try FileManager.default.removeItem(at: folder)
        try outcome.get()
    }

    @Test func itKeepsThePromisesOfAStore() async throws {
        try await withFolder { folder in
            let files = folder.path
            try await TokenStoreConformance(
                makeStore: {
                    let own = "\(files)/\(UUID().uuidString)"
                    try FileManager.default.createDirectory(atPath: own, withIntermediateDirectories: true)
                    return (Self.store([Self.script], folder: own))
                },
                reopen: { $0 }
            ).check()
        }
    }

    @Test func whatTheProgramKeepsIsEncrypted() async throws {
        try await withFolder { folder in
            let store = Self.store([Self.script], folder: folder.path)
            try await store.replace(token, for: credential)
            #expect(try await store.load(credential).token == token)
            let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
            #expect(names == ["authgateway___00ff11ee"])
            let text = try String(contentsOf: folder.appending(path: names[0]), encoding: .utf8)
            #expect(text.contains(#""ServerURL":"authgateway://00ff11ee""#))
            #expect(text.contains(#""Username":"authgateway""#))
            #expect(!text.contains("canary"))
        }
    }

    @Test func damageIsAnErrorWithAWayOut() async throws {
        try await withFolder { folder in
            let store = Self.store([Self.script], folder: folder.path)
            try await store.replace(token, for: credential)
            let file = folder.appending(path: "authgateway___00ff11ee")
            let whole = try String(contentsOf: file, encoding: .utf8)
            for text in ["", "{}", "not JSON", whole.replacing("11ee", with: "11ef").replacing("A", with: "B")] {
                try text.write(to: file, atomically: true, encoding: .utf8)
                let failure = await #expect(throws: TokenStoreError.self) { try await store.load(credential).token }
                guard case .damaged(let advice)? = failure else {
                    Issue.record("\(text.prefix(20)) is not damage: \(String(describing: failure))")
                    continue
                }
                #expect(advice.contains("authgateway token clear NAME"))
            }
        }
    }

    @Test(arguments: [["sh", "-c", "echo canary; exit 3"], ["sh", "-c", "exit 1"], ["/nowhere/helper"]])
    func aProgramThatFailsIsNoEmptyStore(_ command: [String]) async throws {
        let store = Self.store(command)
        for attempt in ["get", "store", "erase"] {
            let failure = await #expect(throws: TokenStoreError.self) {
                switch attempt {
                case "get": _ = try await store.load(credential).token
                case "store": try await store.replace(token, for: credential)
                default: try await store.replace(nil, for: credential)
                }
            }
            guard case .unavailable(let reason)? = failure else {
                Issue.record("\(command) \(attempt): \(String(describing: failure))")
                continue
            }
            #expect(reason.hasPrefix("\(command[0]) \(attempt) "))
            #expect(!reason.contains("canary"))
        }
    }

    @Test func tokensOutliveTheGateway() async throws {
        try await Bench.run { bench in
            let folder = bench.folder.appending(path: "tokens")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let store = """
                tokens:
                  store: command
                  command: ["\(Self.script)"]
                  environment: {TOKEN_FOLDER: "\(folder.path)"}

                """
            for _ in 0..<2 {
                try await bench.withGateway(store + Configurations.upstream) { gateway in
                    let status = try await gateway.get("/api/echo").status
                    #expect(status == 200)
                }
            }
            #expect(try await bench.tokenCalls() == 1)
        }
    }
}
