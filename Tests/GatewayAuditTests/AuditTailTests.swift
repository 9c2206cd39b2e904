import Testing

@testable import GatewayAudit

@Suite("The newest rows of the audit log", .timeLimit(.minutes(5)))
struct AuditTailTests {
    let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    private func tail(_ rows: Int, keys: AuditKeys? = nil) async throws -> AuditVerification {
        try await fixture.reader.verifyTail(keys: keys ?? fixture.keys, rows: rows)
    }

    @Test(arguments: [1, 3, 5, 100])
    func anIntactEndFits(_ rows: Int) async throws {
        try await fixture.write(5)
        let found = try await tail(rows)
        #expect(found.isIntact && found.rows == min(rows, 5) && found.lastRow == 5)
    }

    @Test func anEmptyLogFits() async throws {
        await (try fixture.open()).close()
        #expect(try await tail(10).isIntact)
    }

    @Test func aChangeAmongThemIsFoundAndOneBeforeThemIsNot() async throws {
        try await fixture.write(5)
        try fixture.tamper("UPDATE token_events SET credential = 'x' WHERE id = 2")
        #expect(try await tail(3).isIntact)
        #expect(try await tail(4).breach?.row == 2)
    }

    @Test func aCutEndIsFoundByTheHead() async throws {
        try await fixture.write(5)
        try fixture.tamper("DELETE FROM token_events WHERE id = 5")
        #expect(try await tail(2).breach?.fault == .cutTail)
    }

    @Test func anotherKeyIsFound() async throws {
        try await fixture.write(2)
        #expect(try await tail(2, keys: AuditFixture.keys(9)).breach?.fault == .foreignKey)
    }
}
