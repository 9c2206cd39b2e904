import Foundation
import GRDB
import GatewayTesting
import Testing

@testable import GatewayAudit

/// What a log is compared with beside its own rows: triggers, heads that were sent elsewhere, and the log of which it is a copy.
@Suite("Evidence for an audit log", .timeLimit(.minutes(5)))
struct AuditEvidenceTests {
    let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    /// What the anchor gets, after each event.
    private func write(_ count: Int) async throws -> [AnchoredHead] {
        let log = try fixture.open()
        var heads: [AnchoredHead] = []
        for number in 1...count {
            try await log.record(fixture.event(generation: number))
            heads.append(try #require(log.headToAnchor()))
        }
        await log.close()
        return heads
    }

    private func verify(_ change: (inout AuditEvidence) -> Void) async throws -> AuditVerification {
        var evidence = AuditEvidence()
        change(&evidence)
        return try await fixture.reader.verify(keys: fixture.keys, evidence: evidence)
    }

    /// The database and its head file, put back together.
    private func puttingBack(_ body: () async throws -> Void) async throws {
        let files = [fixture.path, fixture.head]
        let old = try files.map { try Data(contentsOf: URL(fileURLWithPath: $0)) }
        try await body()
        for (file, content) in zip(files, old) { try content.write(to: URL(fileURLWithPath: file)) }
    }

    // MARK: The anchor

    @Test func aLogThatWasPutBackIsFoundByItsAnchorAlone() async throws {
        var anchored = try await write(3)
        try await puttingBack { anchored += try await write(2) }
        #expect(try await verify { _ in }.isIntact, "database and head fit each other")
        let breach = try #require(try await verify { $0.anchor = anchored }.breach)
        #expect(breach.fault == .rolledBack)
        #expect(breach.row == 4)
        #expect(breach.explanation.contains("row 4, which was sent to the anchor at 2026-03-01T09:30:00.000Z"))
    }

    @Test func aLogThatWasPutBackAndWentOnIsFoundToo() async throws {
        var anchored = try await write(3)
        try await puttingBack { anchored += try await write(2) }
        fixture.clock.advance(by: .seconds(5))
        anchored += try await write(4)
        let verification = try await verify { $0.anchor = anchored }
        #expect(verification.breach?.fault == .rolledBack)
        #expect(verification.breach?.row == 4)
        #expect(verification.rows == 3)
    }

    @Test func aLogThatFitsItsAnchorIsIntact() async throws {
        let anchored = try await write(5)
        let verification = try await verify { $0.anchor = Array(anchored.prefix(4)) }
        #expect(verification.isIntact)
        let anchor = verification.compared.first { $0.source == .anchor }
        #expect(anchor == AuditVerification.NamedRow(source: .anchor, row: 4, isCompared: true))
        #expect(verification.compared.contains { $0.source == .head && $0.row == 5 && $0.isCompared })
    }

    @Test func aHeadThatSomebodyElseWroteToTheAnchorIsFound() async throws {
        let anchored = try await write(3)
        let stranger = AuditChain(key: AuditFixture.keys(9).chain)
        let forged = AnchoredHead(AuditHead(id: 2, hash: anchored[0].hash, chain: stranger), at: anchored[0].at)
        let breach = try await verify { $0.anchor = anchored + [forged] }.breach
        #expect(breach?.fault == .anchorChanged)
        #expect(breach?.row == 2)
    }

    @Test func whatRetentionRemovedIsNotMissed() async throws {
        let anchored = try await write(3)
        fixture.clock.advance(by: .seconds(7200))
        let log = try fixture.open(retention: .seconds(3600))
        try await log.record(fixture.event())
        await log.prune()
        #expect(try await log.contradiction(of: anchored) == nil)
        await log.close()
        let verification = try await verify { $0.anchor = anchored }
        #expect(verification.isIntact)
        #expect(verification.prunedTo == 3)
    }

    @Test func theStartFindsALogThatWasPutBack() async throws {
        var anchored = try await write(3)
        try await puttingBack { anchored += try await write(2) }
        let log = try fixture.open()
        #expect(try await log.contradiction(of: Array(anchored.prefix(3))) == nil)
        let shorter = try #require(try await log.contradiction(of: anchored))
        #expect(shorter.contains("ends before row 4"))
        fixture.clock.advance(by: .seconds(5))
        for _ in 1...4 { try await log.record(fixture.event()) }
        let other = try #require(try await log.contradiction(of: anchored))
        #expect(other.contains("row 4 is not the one that was sent to the anchor"))
        await log.close()
    }

    @Test func aLineOfTheAnchorIsReadAsItWasWritten() async throws {
        let head = try #require(try await write(2).last)
        #expect(head.line.hasPrefix("2026-03-01T09:30:00.000Z 2:\(head.hash) "))
        #expect(AnchoredHead(line: head.line) == head)
        let torn = "\(head.line.dropLast(3))\nsomething else\n\n\(head.line)\n"
        #expect(AnchoredHead.all(in: torn.utf8) == [head])
        #expect(AnchoredHead.row("2:\(head.hash)")?.id == 2)
        for wrong in [
            "", "2", "2:", "0:\(head.hash)", "-1:\(head.hash)", "2:\(head.hash)0", "2:\(head.hash):", "x:\(head.hash)",
        ] {
            #expect(AnchoredHead.row(wrong) == nil, "\(wrong)")
        }
    }

    @Test func anEmptyLogHasNothingForItsAnchor() async throws {
        let log = try fixture.open()
        #expect(log.headToAnchor() == nil)
        await log.close()
    }

    @Test func commitsAreToldOfUntilTheLogIsClosed() async throws {
        let log = try fixture.open()
        var changes = log.headChanges.makeAsyncIterator()
        try await log.record(fixture.event())
        try await log.record(fixture.event())
        #expect(await changes.next() != nil)
        await log.close()
        #expect(await changes.next() == nil)
    }

    // MARK: What an operator names

    @Test func aRowThatAnOperatorNamesIsLookedFor() async throws {
        let heads = try await write(3)
        #expect(try await verify { $0.row = (2, heads[1].hash) }.isIntact)
        let other = try await verify { $0.row = (2, heads[2].hash) }.breach
        #expect(other?.fault == .rolledBack && other?.row == 2)
        let beyond = try await verify { $0.row = (9, heads[2].hash) }.breach
        #expect(beyond?.fault == .rolledBack && beyond?.row == 4)
    }

    // MARK: Copies

    @Test func aCopyMayEndBeforeTheLog() async throws {
        var anchored = try await write(3)
        let copy = fixture.directory.file("copy.sqlite")
        try FileManager.default.copyItem(atPath: fixture.path, toPath: copy)
        anchored += try await write(2)
        var evidence = AuditEvidence()
        evidence.anchor = anchored
        #expect(try await AuditReader(path: copy).verify(keys: fixture.keys).breach?.fault == .headMissing)
        evidence.isCopy = true
        evidence.log = fixture.path
        let verification = try await AuditReader(path: copy).verify(keys: fixture.keys, evidence: evidence)
        #expect(verification.isIntact && verification.isCopy)
        #expect(verification.rows == 3)
        #expect(verification.compared.contains { $0.source == .logHead && $0.row == 5 && !$0.isCompared })
        #expect(verification.compared.contains { $0.source == .anchor && $0.row == 5 && !$0.isCompared })
        // A row that somebody names has to be in a copy too.
        evidence.row = (5, anchored[4].hash)
        #expect(try await AuditReader(path: copy).verify(keys: fixture.keys, evidence: evidence).breach?.row == 4)
    }

    @Test func aCopyOfAnotherHistoryIsFound() async throws {
        _ = try await write(3)
        let copy = fixture.directory.file("copy.sqlite")
        try await puttingBack {
            _ = try await write(2)
            try FileManager.default.copyItem(atPath: fixture.path, toPath: copy)
        }
        fixture.clock.advance(by: .seconds(5))
        _ = try await write(2)
        var evidence = AuditEvidence()
        evidence.isCopy = true
        evidence.log = fixture.path
        let breach = try await AuditReader(path: copy).verify(keys: fixture.keys, evidence: evidence).breach
        #expect(breach?.fault == .changed && breach?.row == 5)
    }

    @Test func aCopyWithItsHeadMayNotEndBeforeThat() async throws {
        _ = try await write(3)
        let copy = fixture.directory.file("copy.sqlite")
        try FileManager.default.copyItem(atPath: fixture.path, toPath: copy)
        _ = try await write(1)
        try FileManager.default.copyItem(atPath: fixture.head, toPath: copy + ".head")
        var evidence = AuditEvidence()
        evidence.isCopy = true
        #expect(
            try await AuditReader(path: copy).verify(keys: fixture.keys, evidence: evidence).breach?.fault == .cutTail
        )
    }

    // MARK: Triggers

    @Test(arguments: [
        "DROP TRIGGER token_events_refuse_update",
        "DROP TRIGGER token_events_refuse_update; CREATE TRIGGER token_events_refuse_update BEFORE UPDATE ON token_events "
            + "WHEN OLD.id = 0 BEGIN SELECT RAISE(ABORT, 'token_events is append-only'); END",
        "CREATE TRIGGER another BEFORE INSERT ON token_events BEGIN SELECT RAISE(IGNORE); END",
    ])
    func aTriggerThatIsNotAsItWasMadeIsFound(_ sql: String) async throws {
        try await fixture.write(2)
        let database = try DatabaseQueue(path: fixture.path)
        try await database.write { try $0.execute(sql: sql) }
        try database.close()
        let verification = try await fixture.verify()
        #expect(verification.breach?.fault == .unguarded)
        #expect(verification.rows == 2, "all rows fit")
    }

    @Test func aStartDoesNotHideATriggerThatWasReplaced() async throws {
        try await fixture.write(2)
        let database = try DatabaseQueue(path: fixture.path)
        try await database.write {
            try $0.execute(
                sql: """
                    DROP TRIGGER token_events_gapless;
                    CREATE TRIGGER token_events_gapless BEFORE INSERT ON token_events BEGIN SELECT 1; END
                    """
            )
        }
        try database.close()
        try await fixture.write(1)
        #expect(try await fixture.verify().breach?.fault == .unguarded)
    }
}
