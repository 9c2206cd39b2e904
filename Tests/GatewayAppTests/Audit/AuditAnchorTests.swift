import Crypto
import Foundation
import GatewayAudit
import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Logging
import Testing

@testable import GatewayApp

@Suite("Anchor of the audit log", .timeLimit(.minutes(5)))
struct AuditAnchorTests {
    private let folder: String
    private var database: String { "\(folder)/audit.sqlite" }
    private var file: String { "\(folder)/heads" }

    init() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "anchor-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        self.folder = folder.path(percentEncoded: false)
    }

    private func open() throws -> SQLiteAuditLog {
        let key = SymmetricKey(data: [UInt8](repeating: 1, count: 32))
        return try SQLiteAuditLog(
            options: SQLiteAuditLog.Options(path: database, instance: "gw"),
            keys: AuditKeys(chain: key, fingerprint: key),
            clock: SystemClock(),
            logger: Logger(label: "audit") { _ in SwiftLogNoOpLogHandler() }
        )
    }

    private func make(_ plan: AnchorPlan, of log: SQLiteAuditLog) -> AuditAnchor {
        AuditAnchor(plan, log: log, clock: SystemClock(), logger: Logger(label: "a") { _ in SwiftLogNoOpLogHandler() })
    }

    private func event() -> TokenEvent { TokenEvent(at: SystemClock().now().wall, name: .acquired, credential: "box") }

    private func heads() throws -> [AnchoredHead] {
        AnchoredHead.all(in: try Data(contentsOf: URL(fileURLWithPath: file)))
    }

    private func eventually(_ condition: () throws -> Bool) async throws {
        let end = ContinuousClock.now + .seconds(20)
        while try !condition() {
            try #require(ContinuousClock.now < end)
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    @Test func theHeadIsSentOnceASecondAtMostAndAtTheStop() async throws {
        let log = try open()
        let anchor = make(.file(path: file), of: log)
        await anchor.compare()
        let running = Task { await anchor.run() }
        let start = ContinuousClock.now
        while ContinuousClock.now - start < .milliseconds(2500) {
            try await log.record(event())
            try await Task.sleep(for: .milliseconds(10))
        }
        let sent = try heads().count
        #expect((1...4).contains(sent), "\(sent) heads in 2.5 s")
        running.cancel()
        await running.value
        try await log.record(event())
        let last = try #require(log.headToAnchor()?.id)
        await anchor.finish()
        #expect(try heads().last?.id == last)
        let count = try heads().count
        await anchor.finish()
        #expect(try heads().count == count, "nothing new, nothing sent")
        #expect(anchor.reasons == [])
        await log.close()
        try FileManager.default.removeItem(atPath: folder)
    }

    @Test func aFileThatCannotBeWrittenIsAReasonAndTriedAgain() async throws {
        let log = try open()
        let missing = "\(folder)/mount/heads"
        let anchor = make(.file(path: missing), of: log)
        let running = Task { await anchor.run() }
        try await log.record(event())
        try await eventually { anchor.reasons != [] }
        #expect(
            anchor.reasons.first?.contains("does not reach its anchor (\(missing)): no such file or directory") == true
        )
        try FileManager.default.createDirectory(atPath: "\(folder)/mount", withIntermediateDirectories: true)
        try await eventually { anchor.reasons == [] }
        running.cancel()
        await running.value
        await log.close()
    }

    @Test func aProgramThatHangsKeepsNoEventBack() async throws {
        let log = try open()
        let program = TokenProgram(command: ["/bin/sleep", "60"], timeout: .milliseconds(300))
        let anchor = make(.command(program, read: nil), of: log)
        let running = Task { await anchor.run() }
        let start = ContinuousClock.now
        for _ in 1...20 { try await log.record(event()) }
        #expect(ContinuousClock.now - start < .seconds(5))
        try await eventually { anchor.reasons != [] }
        #expect(anchor.reasons.first?.contains("/bin/sleep") == true)
        running.cancel()
        await running.value
        await anchor.finish()
        await log.close()
    }

    @Test func aProgramGetsALineAndPrintsWhatItKept() async throws {
        let log = try open()
        let keep = TokenProgram(command: ["/bin/sh", "-c", "cat >> \(file)"], timeout: .seconds(5))
        let read = TokenProgram(command: ["/bin/cat", file], timeout: .seconds(5))
        let anchor = make(.command(keep, read: read), of: log)
        try await log.record(event())
        await anchor.finish()
        try await log.record(event())
        await anchor.finish()
        #expect(try heads().map(\.id) == [1, 2])
        #expect(try await AnchorSink(.command(keep, read: read)).heads() == heads())
        #expect(try await AnchorSink(.command(keep, read: nil)).heads() == nil)
        await anchor.compare()
        #expect(anchor.reasons == [] && anchor.contradiction == nil)
        await log.close()
    }

    @Test func aStartAfterARollbackSaysSo() async throws {
        let files = [database, "\(database).head"]
        func run(_ events: Int) async throws {
            let log = try open()
            let anchor = make(.file(path: file), of: log)
            for _ in 1...events { try await log.record(event()) }
            await anchor.finish()
            await log.close()
        }
        try await run(2)
        let old = try files.map { try Data(contentsOf: URL(fileURLWithPath: $0)) }
        try await run(3)
        for (file, content) in zip(files, old) { try content.write(to: URL(fileURLWithPath: file)) }
        let log = try open()
        let anchor = make(.file(path: file), of: log)
        await anchor.compare()
        #expect(anchor.contradiction?.contains("ends before row 5") == true)
        #expect(anchor.reasons.first?.contains("does not match its anchor (\(file))") == true)
        // It goes on all the same.
        try await log.record(event())
        await anchor.finish()
        await log.close()
        let next = try open()
        let later = make(.file(path: file), of: next)
        for _ in 1...9 { try await next.record(event()) }
        await later.compare()
        #expect(later.contradiction != nil, "what was sent before is still there")
        await next.close()
    }

    @Test func anAnchorThatCannotBeReadIsSaidAtTheStart() async throws {
        let log = try open()
        let fails = TokenProgram(command: ["/bin/false"], timeout: .seconds(5))
        let anchor = make(.command(fails, read: fails), of: log)
        await anchor.compare()
        #expect(anchor.contradiction == nil)
        #expect(anchor.reasons.first?.contains("was not compared with its anchor (/bin/false) at the start") == true)
        await log.close()
    }

    @Test(arguments: ["x", "\0\0\0", "2026-03-01T09:30:00.000Z 1:abc"])
    func whatHoldsSomethingElseIsNotTakenForEmpty(_ text: String) async throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: file))
        await #expect(throws: AuditError.self) { try await AnchorSink(.file(path: file)).heads() }
    }

    @Test func linesOfTheFileBeforeAreReadToo() async throws {
        let log = try open()
        for _ in 1...2 {
            try await log.record(event())
            let anchor = make(.file(path: file), of: log)
            try await log.record(event())
            await anchor.finish()
        }
        let all = try heads()
        try Data("\(all[0].line)\n".utf8).write(to: URL(fileURLWithPath: "\(file).old"))
        try Data("\(all[1].line)\n".utf8).write(to: URL(fileURLWithPath: file))
        #expect(try await AnchorSink(.file(path: file)).heads() == all)
        #expect(try await AnchorSink(.file(path: "\(folder)/none")).heads() == [])
        try Data("\n".utf8).write(to: URL(fileURLWithPath: "\(folder)/empty"))
        #expect(try await AnchorSink(.file(path: "\(folder)/empty")).heads() == [])
        await log.close()
    }
}
