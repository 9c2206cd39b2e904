import Foundation
import GRDB
import GatewayTesting
import Testing

@testable import GatewayAudit

@Suite("Chains of all gateways", .timeLimit(.minutes(5)))
struct SharedAuditVerifyTests {
    let log: AuditFixture
    let shared: SharedAuditFixture

    init() throws {
        log = try AuditFixture()
        shared = try SharedAuditFixture()
    }

    private func verify() async throws -> [AuditVerification] {
        let reader = try shared.reader()
        var results: [AuditVerification] = []
        for chain in try await reader.chains() { results.append(try await reader.verify(chain, keys: log.keys)) }
        await reader.close()
        return results
    }

    @Test func chainsThatFitAreIntact() async throws {
        try await log.write(10)
        let other = try AuditFixture()
        let file = try other.open(retention: .seconds(3600))
        for generation in 1...5 { try await file.record(other.event(generation: generation)) }
        other.clock.advance(by: .seconds(4000))
        for generation in 6...8 { try await file.record(other.event(generation: generation)) }
        await file.prune()
        await file.close()
        let empty = try AuditFixture()
        await (try empty.open()).close()
        try await shared.ship(log, as: "c1", host: "gw-2")
        try await shared.ship(other, as: "c2", host: "gw-1")
        try await shared.ship(empty, as: "c3", host: "gw-3")
        let reader = try shared.reader()
        let chains = try await reader.chains()
        #expect(chains.map(\.name) == ["c2", "c1", "c3"] && chains.map(\.gateway) == ["gw-1", "gw-2", "gw-3"])
        await reader.close()
        let found = try await verify()
        #expect(found.map(\.breach) == [nil, nil, nil])
        #expect(found.map(\.prunedTo) == [5, 0, 0])
        #expect(found.map(\.rows) == [3, 10, 0])
        #expect(found[1].compared == [.init(source: .shipped, row: 10, isCompared: true)])
    }

    @Test(
        arguments: [
            ("UPDATE authgateway.audit_event SET credential = 'x' WHERE id = 3", .changed, 3),
            ("UPDATE authgateway.audit_event SET http_status = NULL WHERE id = 3", .changed, 3),
            ("UPDATE authgateway.audit_event SET hash = previous_hash WHERE id = 5", .changed, 5),
            ("DELETE FROM authgateway.audit_event WHERE id = 5", .missing, 5),
            ("DELETE FROM authgateway.audit_event WHERE id < 3", .missing, 1),
            ("DELETE FROM authgateway.audit_event WHERE id > 7", .cutTail, 8),
            ("DELETE FROM authgateway.audit_event", .cutTail, 1),
            ("UPDATE authgateway.audit_event SET id = -4 WHERE id = 4", .moved, -4),
            ("UPDATE authgateway.audit_chain SET head_hash = repeat('0', 64)", .changed, 10),
            ("UPDATE authgateway.audit_chain SET head_id = 12", .cutTail, 11),
            ("DELETE FROM authgateway.audit_chain", .headMissing, nil),
            (
                "INSERT INTO authgateway.audit_checkpoint VALUES ('c1', 1, '', 4, '', '', ''); "
                    + "DELETE FROM authgateway.audit_event WHERE id < 5",
                .checkpointChanged, nil
            ),
        ] as [(String, AuditVerification.Fault, Int64?)]
    )
    func whatWasChangedIsFound(_ sql: String, _ fault: AuditVerification.Fault, _ row: Int64?) async throws {
        try await log.write(10)
        try await shared.ship(log, as: "c1", host: "gw-1")
        try shared.tamper(sql)
        let results = try await verify()
        #expect(results.count == 1)
        #expect(results.first?.breach?.fault == fault && results.first?.breach?.row == row)
    }

    /// A gateway ships the checkpoint first, and removes the rows that it stands for afterwards.
    @Test func rowsBeforeACheckpointAreGoneOrAuthentic() async throws {
        let file = try log.open(retention: .seconds(3600))
        for generation in 1...5 { try await file.record(log.event(generation: generation)) }
        log.clock.advance(by: .seconds(4000))
        for generation in 6...8 { try await file.record(log.event(generation: generation)) }
        try await shared.ship(log, as: "c1", host: "gw-1")
        await file.prune()
        await file.close()
        try await shared.shipCheckpoints(of: log, as: "c1")
        for sql in ["SELECT 1", "DELETE FROM authgateway.audit_event WHERE id IN (1, 3)"] {
            try shared.tamper(sql)
            let found = try #require(try await verify().first)
            #expect(found.isIntact && found.rows == 3 && found.prunedTo == 5)
        }
        try shared.tamper("UPDATE authgateway.audit_event SET credential = 'x' WHERE id = 4")
        let breach = try await verify().first?.breach
        #expect(breach?.fault == .changed && breach?.row == 4)
    }

    @Test func aChainOfAnotherKeyIsNoBrokenOne() async throws {
        let other = try AuditFixture()
        let keys = AuditFixture.keys(9)
        let file = try other.open(keys: keys)
        for generation in 1...5 { try await file.record(other.event(generation: generation)) }
        await file.close()
        try await log.write(2)
        try await shared.ship(other, as: "c1", host: "gw-1", keys: keys)
        try await shared.ship(log, as: "c2", host: "gw-2")
        let found = try await verify()
        #expect(found.map(\.breach?.fault) == [.foreignKey, nil])
        let reader = try shared.reader()
        let chain = try #require(try await reader.chains().first)
        #expect(try await reader.verify(chain, keys: keys).isIntact)
        await reader.close()
    }

    /// It needs no memory for its rows, and nothing is left of it when the process is killed.
    @Test func aCopyIsAFileWithoutAName() async throws {
        let copy = try SharedAuditCopy()
        try await copy.use { try $0.execute(sql: "CREATE TABLE numbers (number INTEGER, text TEXT)") }
        let text = String(repeating: "x", count: 4096).databaseValue
        let rows = (1...5000).map { [$0.databaseValue, text] }
        try await copy.insert(rows, into: "numbers", ["number", "text"])
        #expect(try await copy.use { try Int.fetchOne($0, sql: "SELECT count(*) FROM numbers") } == 5000)
        let folder = "/proc/self/fd"
        let files = try FileManager.default.contentsOfDirectory(atPath: folder).compactMap {
            try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\($0)")
        }
        #expect(files.contains { $0.contains("etilqs") && $0.hasSuffix("(deleted)") }, "\(files)")
    }
}
