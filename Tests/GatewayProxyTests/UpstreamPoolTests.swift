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

    /// One connection at a time.
    private static func shared(port: Int) throws -> ProxyShared {
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
        limits.connectionsPerUpstream = 1
        return try ProxyShared(
            configuration: ProxyConfiguration(
                routes: [ProxyRoute(plan: plan, source: nil, selection: nil, number: 0)],
                access: AccessPlan(clients: [], allowedOrigins: [], requireClient: .auto),
                limits: limits,
                sha256: { $0 }
            ),
            lanes: 1,
            state: ProxyState(clock: TestClock(), observer: RecordingObserver(), logger: Logger(label: "test"))
        )
    }
}
