import GatewayCore
import Testing

@testable import GatewayAudit

@Suite("The name of a chain", .timeLimit(.minutes(1)))
struct ChainNameTests {
    let fixture: AuditFixture

    init() throws { fixture = try AuditFixture() }

    @Test func itIsMadeOnceAndStays() async throws {
        let log = try fixture.open()
        let name = log.chainName
        #expect(Hexadecimal.bytes(of: name)?.count == 8)
        await log.close()
        let again = try fixture.open()
        #expect(again.chainName == name)
        await again.close()
        let other = try AuditFixture().open()
        #expect(other.chainName != name)
        await other.close()
    }

    @Test func aRestoredLogTakesAnotherOne() async throws {
        let log = try fixture.open()
        let name = log.chainName
        await log.close()
        var options = SQLiteAuditLog.Options(path: fixture.path, instance: "gw-1")
        options.takesNewChainName = true
        let restored = try fixture.open(options)
        let next = restored.chainName
        #expect(next != name)
        await restored.close()
        let again = try fixture.open()
        #expect(again.chainName == next)
        await again.close()
    }

    @Test func aNameThatWasChangedIsReplaced() async throws {
        let log = try fixture.open()
        await log.close()
        try fixture.tamper("UPDATE audit_log SET value = 'x''y' WHERE name = 'chain'")
        let again = try fixture.open()
        #expect(Hexadecimal.bytes(of: again.chainName)?.count == 8)
        await again.close()
    }

    @Test func eachReaderIsToldOfCommits() async throws {
        let log = try fixture.open()
        var readers = [log.headChanges.makeAsyncIterator(), log.headChanges.makeAsyncIterator()]
        try await log.record(fixture.event())
        for index in readers.indices { #expect(await readers[index].next() != nil) }
        await log.close()
        for index in readers.indices { #expect(await readers[index].next() == nil) }
        var late = log.headChanges.makeAsyncIterator()
        #expect(await late.next() == nil)
    }
}
