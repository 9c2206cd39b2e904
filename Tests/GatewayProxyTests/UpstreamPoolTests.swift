import GatewayCore
import Logging
import NIOCore
import NIOPosix
import Testing

@testable import GatewayProxy

@Suite("Connections to an upstream")
struct UpstreamPoolTests {
    @Test func aRetiredPoolKeepsNothingForWhoHasLeft() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let server = try await ServerBootstrap(group: group).bind(host: "127.0.0.1", port: 0).get()
        let shared = try Self.shared(port: try #require(server.localAddress?.port))
        let loop = group.next()
        let stays = loop.makePromise(of: Bool.self)
        try await loop.submit {
            let slot = LaneSlot(number: 0, loop: loop, shared: shared)
            let pool = UpstreamPool(target: shared.targets[0], slot: slot, shared: shared)
            _ = pool.connect(.any) { result in
                guard case .success(let connection) = result else {
                    return stays.fail(ListenerError("no connection"))
                }
                pool.retire()
                let place = pool.connect(.any) { _ in Issue.record("nobody waits") }
                pool.putBack(connection)
                if let place { pool.leave(place) }
                loop.assumeIsolated().scheduleTask(in: .milliseconds(200)) { stays.succeed(connection.isOpen) }
            }
        }
        .get()
        #expect(try await !stays.futureResult.get())
        try await server.close().get()
        try await group.shutdownGracefully()
    }

    /// What a connection that ended has left free belongs to who waits, also before its turn has come; but not what the
    /// connection left free that died under somebody's request.
    @Test(arguments: [(UpstreamPool.Reuse.any, "who waits"), (.checked, "who waits"), (.never, "who comes later")])
    func whoComesLaterDoesNotGoFirst(_ reuse: UpstreamPool.Reuse, _ winner: String) async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let server = try await ServerBootstrap(group: group).bind(host: "127.0.0.1", port: 0).get()
        let shared = try Self.shared(port: try #require(server.localAddress?.port))
        let loop = group.next()
        let first = loop.makePromise(of: String.self)
        try await loop.submit {
            let slot = LaneSlot(number: 0, loop: loop, shared: shared)
            let pool = UpstreamPool(target: shared.targets[0], slot: slot, shared: shared)
            func connect(_ name: String, _ reuse: UpstreamPool.Reuse) {
                _ = pool.connect(reuse) { result in
                    switch result {
                    case .success: first.succeed(name)
                    case .failure(let problem): first.fail(problem)
                    }
                }
            }
            _ = pool.connect(.any) { _ in
                connect("who waits", .any)
                pool.connectionEnded()
                connect("who comes later", reuse)
            }
        }
        .get()
        #expect(try await first.futureResult.get() == winner)
        try await server.close().get()
        try await group.shutdownGracefully()
    }

    /// Half of what there may be is shared out; the rest is for whichever loop needs more, and goes back where it is needed.
    @Test func aLoopHasMoreThanItsShareWhileOthersNeedLess() {
        let budget = ConnectionBudget(most: 8, lanes: 2)
        var (one, other) = (0, 0)
        while budget.take(having: one) { one += 1 }
        while budget.take(having: other) { other += 1 }
        #expect((one, other) == (6, 2))
        #expect(budget.isNeededElsewhere(having: one))
        #expect(!budget.isNeededElsewhere(having: other))
        budget.giveBack(having: one)
        one -= 1
        #expect(!budget.isNeededElsewhere(having: one))
        #expect(budget.take(having: other))
        #expect(!budget.take(having: one))
        #expect(!budget.take(having: other + 1))
    }

    @Test(arguments: [(1, 1, 1), (1, 4, 4), (3, 2, 3), (1024, 1, 1024), (1024, 5, 1024)])
    func allLoopsTogetherHaveWhatThereMayBe(_ most: Int, _ lanes: Int, _ opened: Int) {
        let budget = ConnectionBudget(most: most, lanes: lanes)
        var counts = Array(repeating: 0, count: lanes)
        for lane in counts.indices {
            while budget.take(having: counts[lane]) { counts[lane] += 1 }
        }
        #expect(counts.reduce(0, +) == opened)
        #expect(counts.allSatisfy { $0 > 0 })
    }

    /// While another loop needs connections, none rests here beyond this loop's share.
    @Test func aConnectionThatOthersNeedIsNotKept() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let server = try await ServerBootstrap(group: group).bind(host: "127.0.0.1", port: 0).get()
        let shared = try Self.shared(port: try #require(server.localAddress?.port), most: 4, lanes: 2)
        let loop = group.next()
        let open = loop.makePromise(of: [Bool].self)
        try await loop.submit {
            let pools = (0..<2).map { number in
                let slot = LaneSlot(number: number, loop: loop, shared: shared)
                return UpstreamPool(target: shared.targets[0], slot: slot, shared: shared)
            }
            var connections: [UpstreamHandler] = []
            func collect(_ result: Result<UpstreamHandler, GatewayProblem>) {
                guard case .success(let connection) = result else { return open.fail(ListenerError("no connection")) }
                connections.append(connection)
                guard connections.count == 3 else { return }
                for connection in connections { pools[0].putBack(connection) }
                loop.assumeIsolated().scheduleTask(in: .milliseconds(200)) {
                    open.succeed(connections.map(\.isOpen))
                }
            }
            for _ in 0..<3 { _ = pools[0].connect(.any, collect) }
        }
        .get()
        // The first is closed; by that the others are no longer needed elsewhere.
        #expect(try await open.futureResult.get() == [false, true, true])
        try await server.close().get()
        try await group.shutdownGracefully()
    }

    /// - Parameter most: Connections at a time.
    private static func shared(port: Int, most: Int = 1, lanes: Int = 1) throws -> ProxyShared {
        let plan = RoutePlan(
            name: "api",
            upstream: Origin(scheme: .http, host: "127.0.0.1", port: port),
            upstreamPath: "",
            matchPath: "/api",
            matchHosts: [],
            credential: nil,
            span: SourceSpan(file: 0, line: 1, column: 1)
        )
        var limits = Limits()
        limits.connectionsPerUpstream = most
        return try ProxyShared(
            configuration: ProxyConfiguration(
                routes: [ProxyRoute(plan: plan, source: nil, selection: nil, number: 0)],
                access: AccessPlan(clients: [], allowedOrigins: [], requireClient: .auto),
                limits: limits,
                sha256: { $0 }
            ),
            lanes: lanes,
            state: ProxyState(clock: TestClock(), observer: RecordingObserver(), logger: Logger(label: "test"))
        )
    }
}
