import Testing

@testable import GatewayProxy

@Suite("Places that clients share", .timeLimit(.minutes(1)))
struct ClientPlacesTests {
    /// How many more the client gets.
    private func takeAll(_ places: inout ClientPlaces, for client: String?, isShared: Bool = true) -> Int {
        var count = 0
        while places.take(for: client, limit: 48, isShared: isShared) { count += 1 }
        return count
    }

    @Test func oneClientLeavesAQuarter() {
        var places = ClientPlaces()
        #expect(takeAll(&places, for: "a") == 36)
        #expect(takeAll(&places, for: nil) == 9)
        #expect(takeAll(&places, for: "b") == 3 && takeAll(&places, for: "c") == 0)
    }

    @Test func withoutNamesNoneIsLeft() {
        var places = ClientPlaces()
        #expect(takeAll(&places, for: nil, isShared: false) == 48)
    }

    @Test func onlyAPlaceThatIsHeldIsGivenBack() {
        var places = ClientPlaces()
        _ = takeAll(&places, for: "a")
        _ = takeAll(&places, for: "b")
        places.giveBack(of: "unknown")
        #expect(takeAll(&places, for: "a") == 0)
        for _ in 0..<36 { places.giveBack(of: "a") }
        places.giveBack(of: "a")
        // 9 are the other client's.
        #expect(takeAll(&places, for: "a") == 30)
    }
}
