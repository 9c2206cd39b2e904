import Testing

@testable import GatewayProxy

@Suite("Shares of the file descriptors", .timeLimit(.minutes(1)))
struct DescriptorSharesTests {
    private static func shares(
        _ limit: Int?,
        connections: Int? = nil,
        upstreamLimit: Int = 1024,
        loops: Int = 4
    ) -> DescriptorShares {
        var limits = Limits()
        limits.connections = connections
        if upstreamLimit != .max { limits.connectionsPerUpstream = upstreamLimit }
        return DescriptorShares(
            limit: limit,
            limits: limits,
            upstreams: 1,
            sharesConnections: upstreamLimit != .max,
            workers: loops / 2,
            processors: loops / 2
        )
    }

    @Test func withoutALimitNothingIsShared() {
        let shares = Self.shares(nil, connections: 1_000_000)
        #expect(shares.clients == 1_000_000 && shares.ceiling == .max && shares.problem == nil)
        #expect(Self.shares(nil).clients == DescriptorShares.standardClients)
        #expect(Self.shares(nil).shortage == nil)
    }

    /// 72 for the gateway, 256 in reserve, 1024 for upstreams, 128 for refused clients.
    @Test(arguments: [
        (9672, 8192, true), (9671, 8191, false), (1_000_000, 8192, true), (Int.max, 8192, true), (4096, 2616, false),
        (1024, 327, false),
        (300, 68, false), (100, 1, false), (1, 1, false), (0, 1, false),
    ])
    func theDefaultIsWhatThereIsRoomFor(_ limit: Int, _ clients: Int, _ isWhole: Bool) {
        let shares = Self.shares(limit)
        #expect(shares.clients == clients)
        #expect((shares.shortage == nil) == isWhole)
        #expect(shares.problem == nil, "nobody has asked for so many")
    }

    @Test func eachUpstreamAndEachLoopTakesItsShare() {
        func clients(upstreams: Int, sharesConnections: Bool = true, workers: Int = 1, processors: Int = 1) -> Int {
            var limits = Limits()
            limits.connectionsPerUpstream = 100
            return DescriptorShares(
                limit: 2000,
                limits: limits,
                upstreams: upstreams,
                sharesConnections: sharesConnections,
                workers: workers,
                processors: processors
            ).clients
        }
        #expect(clients(upstreams: 1) == clients(upstreams: 2) + 100)
        #expect(clients(upstreams: 1, sharesConnections: false) == clients(upstreams: 1000))
        #expect(clients(upstreams: 1, workers: 9) == clients(upstreams: 1, processors: 9))
        #expect(clients(upstreams: 1, workers: 9) < clients(upstreams: 1))
    }

    @Test func aNumberThatFitsIsTaken() {
        let shares = Self.shares(9672, connections: 8192)
        #expect(shares.clients == 8192 && shares.problem == nil && shares.shortage == nil)
        #expect(shares.ceiling == 9416)
    }

    @Test func aNumberThatDoesNotFitIsExplained() {
        #expect(
            Self.shares(4096, connections: 8192).problem
                == "limits.connections is 8192, which needs 9672 file descriptors (8192 for clients, 128 for clients that are"
                + " refused, 1024 for upstreams, 72 for the gateway itself, 256 in reserve for operators, stores and programs);"
                + " the process is limited to 4096. Raise LimitNOFILE (ulimit -n) to 9672, or set limits.connections to at most 2616."
        )
        let tiny = Self.shares(100, connections: 1).problem
        #expect(tiny?.hasSuffix("Raise LimitNOFILE (ulimit -n) to 119.") == true, "\(tiny ?? "none")")
    }

    /// What the message says can be done.
    @Test(arguments: [0, 1, 7, 1024, Int.max], [256, 300, 1024, 4096, 65_536])
    func theNumbersOfTheMessageAreRight(_ upstreamLimit: Int, _ limit: Int) throws {
        let problem = try #require(
            Self.shares(limit, connections: 1_000_000, upstreamLimit: upstreamLimit, loops: 8).problem
        )
        let advice = problem.suffix(from: try #require(problem.firstRange(of: "Raise")).lowerBound)
        let numbers = advice.matches(of: /to (?:at most )?([0-9]+)/).compactMap { Int($0.output.1) }
        let (needed, most) = (try #require(numbers.first), try #require(numbers.last))
        #expect(numbers.count == 2)
        func refusal(_ limit: Int, _ connections: Int) -> String? {
            Self.shares(limit, connections: connections, upstreamLimit: upstreamLimit, loops: 8).problem
        }
        #expect(refusal(needed, 1_000_000) == nil && refusal(needed - 1, 1_000_000) != nil)
        #expect(refusal(limit, most) == nil && refusal(limit, most + 1) != nil)
    }

    @Test func noMoreUpstreamsAreCountedThanClients() {
        // 140 clients, 17 refused, 72 for the gateway, and 120 in reserve; with 140 for upstreams that is too much.
        #expect(Self.shares(480, connections: 140, upstreamLimit: .max).problem != nil)
        #expect(Self.shares(480, connections: 140, upstreamLimit: 1).problem == nil)
        #expect(Self.shares(480, connections: 100, upstreamLimit: .max).problem == nil)
    }

    @Test(arguments: [(nil, 128), (1_000_000, 128), (1024, 128), (300, 37), (10, 1), (0, 1)] as [(Int?, Int)])
    func operatorsHaveAPartOfTheReserve(_ limit: Int?, _ connections: Int) {
        #expect(DescriptorShares.adminConnections(of: limit) == connections)
    }

    @Test(
        arguments: [(nil, 1, 64), (1024, 1, 64), (1024, 4, 16), (300, 2, 9), (300, 100, 1), (0, 0, 1)]
            as [(Int?, Int, Int)]
    )
    func listenersLeaveMostOfTheReserve(_ limit: Int?, _ listeners: Int, _ batch: Int) {
        #expect(DescriptorShares.accepts(of: limit, listeners: listeners) == batch)
    }

    @Test(arguments: [(1, 16), (100, 16), (200, 25), (8192, 128)])
    func fewOfThoseWhoAreRefusedMayStay(_ clients: Int, _ refused: Int) {
        #expect(Self.shares(nil, connections: clients).refused == refused)
    }
}
