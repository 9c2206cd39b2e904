import GatewayEvents
import GatewayHTTP
import Testing

@Suite("The copy of an audit log in a shared database", .timeLimit(.minutes(1)))
struct ShippedChainTests {
    private static func link(_ id: Int64, _ hash: String) -> ShippedChain.Link { ShippedChain.Link(id: id, hash: hash) }

    private func difference(_ log: ShippedChain.Log, _ copy: ShippedChain.Copy) -> ShippedChain.Difference? {
        ShippedChain.difference(between: log, and: copy)
    }

    @Test func aLogGoesOnFromWhatItHasShipped() {
        let log = ShippedChain.Log(end: Self.link(9, "i"), hashAtHead: "e")
        #expect(difference(log, ShippedChain.Copy()) == nil, "nothing was shipped yet")
        #expect(difference(log, ShippedChain.Copy(head: Self.link(0, "genesis"))) == nil)
        #expect(difference(log, ShippedChain.Copy(head: Self.link(5, "e"))) == nil)
    }

    @Test func anotherRowAtTheHeadIsAnotherLog() {
        let copy = ShippedChain.Copy(head: Self.link(5, "e"))
        #expect(difference(ShippedChain.Log(end: Self.link(9, "i"), hashAtHead: "x"), copy) == .otherRow(5))
        #expect(difference(ShippedChain.Log(end: Self.link(9, "i")), copy) == .otherRow(5), "the row is missing")
    }

    @Test func aLogThatEndsBeforeItsCopyWasPutBack() {
        let log = ShippedChain.Log(end: Self.link(4, "d"))
        #expect(difference(log, ShippedChain.Copy(head: Self.link(5, "e"))) == .longer(copy: 5, log: 4))
    }

    @Test func removedRowsAreComparedByTheCheckpointAlone() {
        var log = ShippedChain.Log(end: Self.link(9, "i"), removedTo: Self.link(5, "e"))
        #expect(difference(log, ShippedChain.Copy(head: Self.link(5, "e"))) == nil)
        #expect(difference(log, ShippedChain.Copy(head: Self.link(5, "x"))) == .otherRow(5))
        #expect(difference(log, ShippedChain.Copy(head: Self.link(3, "x"))) == nil, "the row cannot be compared")
        log.hashOfCheckpoint = "k"
        let copy = ShippedChain.Copy(head: Self.link(5, "e"), checkpoint: Self.link(1, "k"))
        #expect(difference(log, copy) == nil)
        log.hashOfCheckpoint = "z"
        #expect(difference(log, copy) == .otherCheckpoint(1))
        log.hashOfCheckpoint = nil
        #expect(difference(log, copy) == .otherCheckpoint(1), "the log has fewer of them")
    }

    @Test func attemptsBecomeFewerUpToALimit() {
        let pauses = [1, 2, 3, 4, 5, 50].map { ShippedChain.pause(afterFailures: $0, jitter: 1) }
        #expect(pauses == [200, 400, 800, 1600, 2000, 2000].map { .milliseconds($0) })
        #expect(ShippedChain.pause(afterFailures: 1, jitter: 0.5) == .milliseconds(100))
    }
}

@Suite("What is said of events that wait for the database", .timeLimit(.minutes(1)))
struct AuditShippingTests {
    private let since = UnixTime(seconds: 1_772_357_400)

    private func shipping(_ unshipped: Int, isRequired: Bool = false) -> AuditShipping {
        let failure = AuditShipping.Failure(since: since, reason: "no route to host")
        return AuditShipping(unshipped: unshipped, failure: failure, isRequired: isRequired)
    }

    @Test func aShortAbsenceIsNotTold() {
        #expect(shipping(3).trouble(at: since + .seconds(59)) == nil)
        #expect(shipping(3).trouble(at: since + .seconds(60))?.reason == "no route to host")
        #expect(shipping(0).trouble(at: since + .seconds(600)) == nil, "nothing waits")
        #expect(AuditShipping(unshipped: 3).trouble(at: since + .seconds(600)) == nil, "it is being shipped")
    }

    @Test func whereTheDatabaseIsRequiredItIsToldSooner() {
        #expect(shipping(0, isRequired: true).trouble(at: since + .seconds(4)) == nil)
        #expect(shipping(0, isRequired: true).trouble(at: since + .seconds(5)) != nil)
    }

    @Test func theSentenceHasCauseEffectAndNumber() throws {
        let failure = try #require(shipping(1).failure)
        let text = shipping(1).sentence(failure, effect: "no new token is used")
        #expect(
            text.contains("1 event waits") && text.contains("no route to host") && text.contains("2026-03-01T09:30")
        )
        #expect(!text.contains("no new token"))
        let required = shipping(2, isRequired: true).sentence(failure, effect: "no new token is used")
        #expect(required.contains("2 events wait") && required.contains("so no new token is used: no route to host"))
    }
}
