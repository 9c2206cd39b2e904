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
