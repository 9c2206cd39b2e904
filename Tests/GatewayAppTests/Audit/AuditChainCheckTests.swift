import Crypto
import Foundation
import GatewayAudit
import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Logging
import Testing

@testable import GatewayApp

@Suite("Daily check of the audit chain", .timeLimit(.minutes(5)))
struct AuditChainCheckTests {
    private let database: String
    private let keys: AuditKeys
    private let logger = Logger(label: "audit") { _ in SwiftLogNoOpLogHandler() }

    init() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "chain-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        database = folder.appending(path: "audit.sqlite").path(percentEncoded: false)
        let key = SymmetricKey(data: [UInt8](repeating: 1, count: 32))
        keys = AuditKeys(chain: key, fingerprint: key)
    }

    private func opened() async throws -> SQLiteAuditLog {
        let log = try SQLiteAuditLog(
            options: SQLiteAuditLog.Options(path: database, instance: "gw"),
            keys: keys,
            clock: SystemClock(),
            logger: logger
        )
        for _ in 0..<3 {
            try await log.record(TokenEvent(at: SystemClock().now().wall, name: .acquired, credential: "box"))
        }
        return log
    }

    private func check(_ clock: any GatewayClock = SystemClock()) -> AuditChainCheck {
        AuditChainCheck(path: database, keys: keys, clock: clock, logger: logger)
    }

    @Test func anIntactChainOfARunningLogIsSaidToBe() async throws {
        let log = try await opened()
        let check = check()
        #expect(check.result == nil)
        await check.verify()
        #expect(check.result?.breach == nil && check.result != nil)
        await log.close()
    }

    @Test func aBreachIsFoundAndKept() async throws {
        // A log that is open may still write its head file.
        try await opened().close()
        try FileManager.default.removeItem(atPath: database + ".head")
        let check = check()
        await check.verify()
        #expect(check.result?.breach?.fault == .headMissing)
    }

    @Test func aLogThatCannotBeReadIsNotSaidToBeBroken() async {
        let check = check()
        await check.verify()
        #expect(check.result == nil)
    }

    @Test func itRunsSoonAfterTheStartAndOnceADay() async throws {
        let log = try await opened()
        let clock = ManualClock()
        let check = check(clock)
        let running = Task { await check.run() }
        for pause in [AuditChainCheck.delay, AuditChainCheck.interval] {
            let before = check.result
            try await clock.untilAsleep(moreThan: pause - .seconds(1), atMost: pause)
            #expect(check.result == before)
            clock.advance(by: pause)
            while check.result == before { try await Task.sleep(for: .milliseconds(1)) }
        }
        running.cancel()
        await running.value
        await log.close()
    }
}
