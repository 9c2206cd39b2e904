import Testing

@testable import GatewayAudit

@Suite("How far the copy of uses is", .timeLimit(.minutes(1)))
struct ShippingProgressTests {
    private static func key(_ minute: String, route: String = "files") -> UseKey {
        UseKey(minute: minute, route: route, client: "", credential: "box", generation: 1, statusClass: 2)
    }

    @Test func aWholeShipmentEndsBeforeTheNextMinute() {
        var progress = ShippingProgress()
        #expect(progress.takeUseCursor() == nil)
        #expect(progress.usesShipped(to: Self.key("09:30"), isLast: true, next: "09:31") == "09:31")
        #expect(progress.takeUseCursor() == nil)
    }

    @Test func aPartGoesOnBehindItsLastRow() {
        var progress = ShippingProgress()
        // After a restart its minute is shipped again.
        #expect(progress.usesShipped(to: Self.key("09:30"), isLast: false, next: "09:31") == "09:30")
        #expect(progress.takeUseCursor() == Self.key("09:30"))
    }

    @Test func aChangeUnderAShipmentIsShippedAgain() {
        var progress = ShippingProgress()
        _ = progress.takeUseCursor()
        progress.noteUse(changedAt: "09:29")
        progress.noteUse(changedAt: "09:30")
        #expect(progress.usesShipped(to: Self.key("09:30"), isLast: true, next: "09:31") == "09:29")
    }

    @Test func aLaterChangeIsNotOfThisShipment() {
        var progress = ShippingProgress()
        _ = progress.takeUseCursor()
        progress.noteUse(changedAt: "09:31")
        #expect(progress.usesShipped(to: Self.key("09:30"), isLast: false, next: "09:31") == "09:30")
        #expect(progress.takeUseCursor() == Self.key("09:30"))
    }

    @Test func aChangeBetweenTwoPartsBeginsAgain() {
        var progress = ShippingProgress()
        _ = progress.usesShipped(to: Self.key("09:30"), isLast: false, next: "09:31")
        progress.noteUse(changedAt: "09:30")
        #expect(progress.takeUseCursor() == nil)
    }

    @Test func aShipmentHoldsOneRowAtLeast() {
        var rows = ShippedRows(ShippedRows.Limits(rows: 2, bytes: 4))
        #expect(rows.hasPlace(for: "{\"id\":1}"))
        rows.add("{\"id\":1}")
        #expect(!rows.hasPlace(for: "{\"id\":2}"), "too many bytes")
        #expect(rows.json == "[{\"id\":1}]")
        var few = ShippedRows(ShippedRows.Limits(rows: 2, bytes: 100))
        for _ in 1...2 { few.add("{}") }
        #expect(!few.hasPlace(for: "{}") && few.json == "[{},{}]" && few.count == 2)
    }

    @Test func aNULBecomesText() {
        #expect(ShippedTable.withoutNUL("a\0b") == "a\\u0000b")
        #expect(ShippedTable.withoutNUL("\0") == "\\u0000")
        #expect(ShippedTable.withoutNUL("plain") == "plain")
    }
}
