import Testing

@testable import GatewayProxy

@Suite("Fair share", .timeLimit(.minutes(5)))
struct FairShareTests {
    @Test(arguments: [
        (0, 0, 1, true), (0, 1, 1, false), (1, 1, 2, true), (2, 2, 2, false), (2, 3, 4, true), (3, 3, 4, false),
        (0, 3, 4, true), (0, 4, 4, false), (0, 0, 0, false), (767, 767, 1024, true), (768, 768, 1024, false),
        (2, 1023, 1024, true), (3, 1023, 1024, false), (0, 1023, 1024, true), (0, .max - 1, .max, true),
        (9, 9, .max, true),
    ])
    func aClientTakesOneMore(own: Int, total: Int, limit: Int, _ isAllowed: Bool) {
        #expect(FairShare.allows(own: own, total: total, limit: limit) == isAllowed)
    }

    @Test(arguments: [(3, 3, 4, true), (1023, 1023, 1024, true), (1024, 1024, 1024, false)])
    func whereNoClientHasANameAllPlacesAreUsed(own: Int, total: Int, limit: Int, _ isAllowed: Bool) {
        #expect(FairShare.allows(own: own, total: total, limit: limit, isShared: false) == isAllowed)
    }

    /// Clients that take all they get, one after the other.
    @Test(arguments: [(1, 768), (2, 439), (3, 308), (10, 100)])
    func greedyClientsTakeTheSameAndLeaveSome(_ clients: Int, _ each: Int) {
        let limit = 1024
        var held = Array(repeating: 0, count: clients)
        var hasChanged = true
        while hasChanged {
            hasChanged = false
            for client in 0..<clients {
                guard FairShare.allows(own: held[client], total: held.reduce(0, +), limit: limit) else { continue }
                held[client] += 1
                hasChanged = true
            }
        }
        #expect(held.allSatisfy { abs($0 - each) <= 1 }, "\(held)")
        #expect(FairShare.allows(own: 0, total: held.reduce(0, +), limit: limit))
    }

    /// A client that was there first does not keep what became free from the others.
    @Test func aClientThatHasMoreThanItsShareWaitsForTheOthers() {
        #expect(!FairShare.allows(own: 700, total: 1000, limit: 1024))
        #expect(FairShare.allows(own: 10, total: 1000, limit: 1024))
    }
}

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
