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

@Suite("Connections that each client has in use", .timeLimit(.minutes(1)))
struct ClientLeasesTests {
    private let names = ClientNames((0..<10_000).map { "client-\($0)" })

    @Test func eachClientHasACountOfItsOwn() {
        let leases = ClientLeases(maximum: 1 << 20, clients: names)
        let clients = [nil, "client-0", "client-62", "client-63", "client-64", "client-9999"].map(leases.client)
        #expect(Set(clients).count == clients.count)
        for (number, client) in clients.enumerated() { for _ in 0...number { leases.add(client) } }
        #expect(clients.map(leases.count) == [1, 2, 3, 4, 5, 6])
        for client in clients { leases.remove(client) }
        #expect(clients.map(leases.count) == [0, 1, 2, 3, 4, 5])
        #expect(leases.count(leases.client("client-1")) == 0)
    }

    @Test func thoseWithoutANameAndUnknownOnesAreOneClient() {
        let leases = ClientLeases(maximum: 4, clients: names)
        #expect(leases.client(nil) == .unnamed && leases.client("unknown") == .unnamed)
        #expect(leases.name(of: .unnamed) == nil)
        #expect(leases.name(of: leases.client("client-7")) == "client-7")
    }

    @Test func withoutNamesNothingIsCounted() {
        let leases = ClientLeases(maximum: 1, clients: ClientNames([]))
        let client = leases.client("anybody")
        leases.add(client)
        leases.add(client)
        #expect(client == .uncounted && leases.count(client) == 0 && leases.allowsOneMore(client))
        #expect(leases.capacity == 0)
    }

    /// The rule for each number of connections, whichever block the client's count is in.
    @Test(arguments: [nil, "client-0", "client-9999"])
    func aClientGetsItsShare(_ name: String?) {
        let leases = ClientLeases(maximum: 1024, clients: names)
        let (client, other) = (leases.client(name), leases.client("client-5000"))
        var count = 0
        while leases.allowsOneMore(client) {
            leases.add(client)
            count += 1
        }
        #expect(count == 768)
        var others = 0
        while leases.allowsOneMore(other) {
            leases.add(other)
            others += 1
        }
        #expect(others == 192 && !leases.allowsOneMore(client))
        for _ in 0..<count { leases.remove(client) }
        #expect(leases.count(client) == 0 && leases.allowsOneMore(client))
    }

    /// A client gets three quarters of the streams, whatever it has of them as whole connections, and others get some of the rest.
    @Test(arguments: [
        (1, 100, 0, 75), (8, 100, 0, 600), (8, 100, 2, 400), (8, 1, 0, 6), (1, 3, 0, 3), (1024, 100, 768, 0),
    ])
    func aClientGetsItsShareOfStreams(maximum: Int, streams: Int, whole: Int, _ expected: Int) {
        let leases = ClientLeases(maximum: maximum, clients: names)
        let (client, other) = (leases.client("client-1"), leases.client("client-2"))
        leases.learned(streamsOfConnection: streams)
        for _ in 0..<whole { leases.add(client) }
        var count = 0
        while leases.count(client, .stream) < maximum * streams, leases.allowsOneMore(client, .stream) {
            leases.add(client, .stream)
            count += 1
        }
        #expect(count == expected && leases.count(client, .stream) == count && leases.count(client) == whole)
        #expect(leases.allowsOneMore(other, .stream))
        for _ in 0..<count { leases.remove(client, .stream) }
        #expect(leases.count(client, .stream) == 0 && leases.count(client) == whole)
    }

    /// Shares of connections do not depend on how many streams one could have.
    @Test(arguments: [1, 2, 3, 4, 8, 1024], [1, 3, 100])
    func connectionsAreSharedAlikeWhateverTheirStreams(maximum: Int, streams: Int) {
        let (leases, plain) = (
            ClientLeases(maximum: maximum, clients: names), ClientLeases(maximum: maximum, clients: names)
        )
        leases.learned(streamsOfConnection: streams)
        for number in 0..<maximum {
            let client = leases.client(number % 3 == 2 ? "client-2" : "client-1")
            #expect(leases.allowsOneMore(client) == plain.allowsOneMore(client))
            leases.add(client)
            plain.add(client)
        }
        for name in ["client-1", "client-2", "client-3"] {
            #expect(leases.allowsOneMore(leases.client(name)) == plain.allowsOneMore(plain.client(name)))
        }
    }

    @Test func roomThatNoClientCanUseIsNotFree() {
        let leases = ClientLeases(maximum: 1, clients: names)
        let client = leases.client("client-1")
        leases.learned(streamsOfConnection: 100)
        for _ in 0..<25 { leases.add(client, .stream) }
        leases.addUnusable(streams: 67)
        #expect(!leases.allowsOneMore(client, .stream))
        leases.removeUnusable(streams: 67)
        #expect(leases.allowsOneMore(client, .stream))
    }

    /// With 10,000 upstreams nearly all counts are never raised.
    @Test func onlyClientsThatWereThereTakeMemory() {
        let leases = ClientLeases(maximum: 1024, clients: names)
        #expect(leases.capacity == 0)
        for name in ["client-1", "client-2"] { _ = leases.allowsOneMore(leases.client(name)) }
        #expect(leases.capacity == 0)
        for _ in 0..<100 { for name in ["client-1", "client-2", "client-9000"] { leases.add(leases.client(name)) } }
        #expect(leases.capacity == 128)
    }

    /// Blocks are made once, also when all threads want the same one first.
    @Test func noCountIsLostBetweenThreads() async {
        let leases = ClientLeases(maximum: 1 << 20, clients: names)
        let used = stride(from: 0, to: 10_000, by: 50).map { leases.client("client-\($0)") }
        await withTaskGroup { group in
            for _ in 0..<4 {
                group.addTask {
                    for _ in 0..<50 {
                        for client in used {
                            leases.add(client)
                            leases.add(client)
                            leases.remove(client)
                        }
                    }
                }
            }
        }
        #expect(used.allSatisfy { leases.count($0) == 200 })
    }
}
