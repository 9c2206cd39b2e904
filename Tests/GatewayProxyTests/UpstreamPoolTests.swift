import GatewayConfiguration
import GatewayHTTP
import Logging
import NIOCore
import NIOPosix
import Testing

@testable import GatewayProxy

@Suite("Connections to an upstream", .timeLimit(.minutes(5)))
struct UpstreamPoolTests {
    @Test func aRetiredPoolKeepsNothingForWhoHasLeft() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let server = try await ServerBootstrap(group: group).bind(host: "127.0.0.1", port: 0).get()
        let shared = try Self.shared(port: try #require(server.localAddress?.port))
        let loop = group.next()
        let stays = loop.makePromise(of: Bool.self)
        try await loop.submit {
            let worker = Worker(number: 0, loop: loop, shared: shared)
            let pool = UpstreamPool(target: shared.targets[0], worker: worker, shared: shared)
            _ = pool.connect(client: nil, isFresh: false) { result in
                guard case .success(let connection) = result else {
                    return stays.fail(ListenerError("no connection"))
                }
                pool.retire()
                let ticket = pool.connect(client: nil, isFresh: false) { _ in Issue.record("nobody waits") }
                connection.returnUnused()
                if let ticket { pool.leave(ticket) }
                loop.assumeIsolated().scheduleTask(in: .milliseconds(200)) { stays.succeed(Self.isOpen(connection)) }
            }
        }
        .get()
        #expect(try await !stays.futureResult.get())
        try await server.close().get()
        try await group.shutdownGracefully()
    }

    /// What a connection that ended has left free belongs to who waits, also before its turn has come; but not what the
    /// connection left free that died under somebody's request.
    @Test(arguments: [(false, "who waits"), (true, "who comes later")])
    func whoComesLaterDoesNotGoFirst(_ isFresh: Bool, _ winner: String) async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let server = try await ServerBootstrap(group: group).bind(host: "127.0.0.1", port: 0).get()
        let shared = try Self.shared(port: try #require(server.localAddress?.port))
        let loop = group.next()
        let first = loop.makePromise(of: String.self)
        try await loop.submit {
            let worker = Worker(number: 0, loop: loop, shared: shared)
            let pool = UpstreamPool(target: shared.targets[0], worker: worker, shared: shared)
            func connect(_ name: String, isFresh: Bool) {
                _ = pool.connect(client: nil, isFresh: isFresh) { result in
                    switch result {
                    case .success: first.succeed(name)
                    case .failure(let problem): first.fail(problem)
                    }
                }
            }
            _ = pool.connect(client: nil, isFresh: false) { result in
                guard let id = Self.id(try? result.get()) else { return first.fail(ListenerError("no connection")) }
                connect("who waits", isFresh: false)
                pool.connectionEnded(id)
                connect("who comes later", isFresh: isFresh)
            }
        }
        .get()
        #expect(try await first.futureResult.get() == winner)
        try await server.close().get()
        try await group.shutdownGracefully()
    }

    private static func id(_ stream: (any UpstreamStream)?) -> ConnectionID? {
        (stream as? HTTP1UpstreamConnection)?.id
    }

    private static func isOpen(_ stream: any UpstreamStream) -> Bool {
        (stream as? HTTP1UpstreamConnection)?.isOpen ?? false
    }

    // MARK: Several event loops

    /// Pools of different event loops, which for once are one and the same, before one upstream.
    private final class Loops {
        let loop: any EventLoop
        let pools: [UpstreamPool]
        /// In the first of them.
        let owner: PrivateConnection
        /// What has been answered, in order: the pool, and the connection unless there was none.
        var answers: [(pool: Int, stream: (any UpstreamStream)?)] = []
        var problems: [String] = []

        init(_ count: Int, on loop: any EventLoop, _ shared: ProxyShared) {
            self.loop = loop
            pools = (0..<count).map { number in
                let worker = Worker(number: number, loop: loop, shared: shared)
                return UpstreamPool(target: shared.targets[0], worker: worker, shared: shared)
            }
            owner = PrivateConnection(to: pools[0], for: nil)
        }

        @discardableResult
        func connect(
            _ pool: Int,
            client: String? = nil,
            isFresh: Bool = false,
            isPrivate: Bool = false
        ) -> WaiterTicket? {
            pools[pool].connect(client: client, isFresh: isFresh, for: isPrivate ? owner : nil) { [self] result in
                answers.append((pool, try? result.get()))
                if case .failure(let problem) = result { problems.append(problem.detail) }
            }
        }

        /// The connection that was the answer of this number goes back to its pool.
        func putBack(_ answer: Int) {
            answers[answer].stream?.returnUnused()
        }

        var order: [Int] { answers.map(\.pool) }
        var areOpen: [Bool] { answers.map { $0.stream.map(UpstreamPoolTests.isOpen) ?? false } }
    }

    /// Runs the steps one behind the other on the loop of `count` pools.
    private func withLoops(
        _ count: Int,
        maximum: Int,
        pause: Duration = .milliseconds(50),
        limits configure: (inout Limits) -> Void = { _ in },
        _ steps: [@Sendable (Loops) -> Void],
        _ check: @escaping @Sendable (Loops) -> Void
    ) async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let server = try await ServerBootstrap(group: group).bind(host: "127.0.0.1", port: 0).get()
        var limits = Limits()
        limits.connectionsPerUpstream = maximum
        configure(&limits)
        let port = try #require(server.localAddress?.port)
        let shared = try Self.shared(port: port, limits: limits, workers: count)
        let loop = group.next()
        let box = try await loop.submit { NIOLoopBound(Loops(count, on: loop, shared), eventLoop: loop) }.get()
        for step in steps {
            try await loop.submit { step(box.value) }.get()
            try await Task.sleep(for: pause)
        }
        try await loop.submit { check(box.value) }.get()
        try await server.close().get()
        try await group.shutdownGracefully()
    }

    @Test func aLoopThatNeedsAConnectionGetsThePlaceOfOneThatRestsElsewhere() async throws {
        try await withLoops(
            2,
            maximum: 2,
            [
                { for _ in 0..<2 { $0.connect(0) } }, { for number in 0..<2 { $0.putBack(number) } },
                { $0.connect(1) },
            ]
        ) { loops in
            #expect(loops.order == [0, 0, 1])
            // The one that has rested longest.
            #expect(loops.areOpen == [false, true, true])
        }
    }

    @Test func whoHasWaitedLongestGetsWhatBecomesFree() async throws {
        try await withLoops(
            3,
            maximum: 3,
            [
                { for _ in 0..<3 { $0.connect(0) } }, { $0.connect(2) }, { $0.connect(1) }, { $0.connect(2) },
                { $0.putBack(0) }, { $0.putBack(1) }, { $0.putBack(2) },
            ]
        ) { loops in
            // The loop that waits twice is not served twice before the other is.
            #expect(loops.order == [0, 0, 0, 2, 1, 2])
            #expect(loops.areOpen == [false, false, false, true, true, true])
        }
    }

    @Test func aLoopThatHasMoreThanItsShareGivesWayAlsoWhileItsOwnWait() async throws {
        try await withLoops(
            2,
            maximum: 2,
            [
                { for _ in 0..<2 { $0.connect(0) } }, { $0.connect(0) }, { $0.connect(1) }, { $0.connect(1) },
                { $0.putBack(0) }, { $0.putBack(1) },
            ]
        ) { loops in
            #expect(loops.order == [0, 0, 1, 0])
            // The last took over what came back.
            #expect(loops.areOpen == [false, true, true, true])
        }
    }

    /// They would hand the same connection round for ever.
    @Test func loopsThatHaveTheSameKeepWhatTheyHave() async throws {
        try await withLoops(
            3,
            maximum: 4,
            [
                { for pool in [1, 1, 2, 2] { $0.connect(pool) } }, { for pool in [1, 2, 1, 2] { $0.connect(pool) } },
                { for number in 0..<4 { $0.putBack(number) } },
            ]
        ) { loops in
            #expect(loops.order.dropFirst(4).sorted() == [1, 1, 2, 2])
            #expect(loops.areOpen == Array(repeating: true, count: 8))
        }
    }

    @Test func loopsTakeTurnsWhereThereIsNotOneForEach() async throws {
        try await withLoops(
            2,
            maximum: 1,
            pause: .milliseconds(300),
            [
                { $0.connect(0) }, { for pool in [0, 1, 0, 1] { $0.connect(pool) } }, { $0.putBack(0) },
                { $0.putBack(1) },
                { $0.putBack(2) }, { $0.putBack(3) },
            ]
        ) { loops in
            #expect(loops.order == [0, 1, 0, 1, 0])
        }
    }

    /// Whoever lost a connection takes the place of one that rests, and those behind it get theirs.
    @Test func whoNeedsANewConnectionHoldsUpNobody() async throws {
        try await withLoops(
            2,
            maximum: 2,
            [
                { for _ in 0..<2 { $0.connect(0) } },
                { loops in
                    loops.connect(0)
                    loops.connect(0, isFresh: true)
                    loops.connect(1)
                    for number in 0..<2 { loops.putBack(number) }
                },
                { loops in loops.order.firstIndex(of: 1).map { loops.putBack($0) } },
            ]
        ) { loops in
            #expect(loops.order.count == 5)
            #expect(loops.areOpen.count { $0 } == 2)
        }
    }

    @Test func noConnectionIsClosedForNobody() async throws {
        try await withLoops(
            2,
            maximum: 2,
            [
                { for _ in 0..<2 { $0.connect(0) } },
                { loops in
                    guard let ticket = loops.connect(1) else { return }
                    loops.pools[1].leave(ticket)
                },
                { for number in 0..<2 { $0.putBack(number) } },
            ]
        ) { loops in
            #expect(loops.order == [0, 0])
            #expect(loops.areOpen == [true, true])
        }
    }

    @Test func aPlaceThatIsNotNeededAfterAllGoesToTheNext() async throws {
        try await withLoops(
            3,
            maximum: 1,
            [
                { $0.connect(0) },
                { loops in
                    let ticket = loops.connect(1)
                    loops.connect(2)
                    loops.putBack(0)
                    if let ticket { loops.pools[1].leave(ticket) }
                },
            ]
        ) { loops in
            #expect(loops.order == [0, 2])
            #expect(loops.areOpen == [false, true])
        }
    }

    // MARK: Age

    /// One in use ends with its request, an idle one when its time has come.
    @Test(arguments: [(Duration.milliseconds(150), false), (.milliseconds(400), true)])
    func aConnectionThatIsTooOldIsReplaced(_ age: Duration, _ isIdle: Bool) async throws {
        try await withLoops(
            1,
            maximum: 1,
            pause: .milliseconds(200),
            limits: { $0.connectionMaxAge = age },
            [
                { $0.connect(0) },
                { loops in
                    loops.putBack(0)
                    #expect(loops.areOpen == [isIdle])
                },
                { _ in },
                { loops in
                    #expect(loops.areOpen == [false])
                    #expect(loops.pools[0].takeIdle(for: nil, mayRepeat: true) == nil)
                    loops.connect(0)
                },
            ]
        ) { loops in
            #expect(loops.order == [0, 0])
            #expect(loops.areOpen == [false, true])
        }
    }

    // MARK: Private connections

    @Test(arguments: PrivateEnd.allCases)
    private func aPrivateConnectionIsInNoPool(_ end: PrivateEnd) async throws {
        try await withLoops(
            1,
            maximum: 1,
            [
                { $0.connect(0, isPrivate: true) },
                { loops in
                    loops.putBack(0)
                    #expect(loops.areOpen == [true])
                    #expect(loops.pools[0].takeIdle(for: nil, mayRepeat: true) == nil)
                    #expect(loops.owner.takeIdle() === loops.answers[0].stream)
                    // It has the only place.
                    loops.connect(0)
                },
                { loops in
                    #expect(loops.order == [0])
                    if end != .closedInUse { loops.putBack(0) }
                    switch end {
                    case .closedIdle, .closedInUse: loops.owner.close()
                    case .drained: loops.pools[0].closeIdle()
                    case .retired: loops.pools[0].retire()
                    }
                    #expect(loops.areOpen == [end == .closedInUse])
                    if end == .closedInUse { loops.putBack(0) }
                },
            ]
        ) { loops in
            #expect(loops.order == [0, 0])
            #expect(loops.areOpen == [false, true])
            #expect(loops.owner.takeIdle() == nil)
        }
    }

    private enum PrivateEnd: CaseIterable {
        case closedIdle, closedInUse, drained, retired
    }

    // MARK: Clients

    @Test func aClientThatWaitsOftenGivesWayToAnother() async throws {
        try await withLoops(
            1,
            maximum: 1,
            limits: { $0.pendingPerUpstream = 2 },
            [
                { loops in for _ in 0..<3 { loops.connect(0, client: "a") } },
                { $0.connect(0, client: "b") }, { $0.connect(0, client: "b") },
                { loops in
                    #expect(loops.problems.count == 2)
                    #expect(loops.problems.first?.hasSuffix(", and other clients wait, too.") ?? false)
                    #expect(loops.problems.last?.hasSuffix("as limits allows.") ?? false)
                },
            ]
        ) { loops in
            #expect(loops.answers.map { $0.stream != nil } == [true, false, false])
        }
    }

    private static func shared(port: Int, limits: Limits? = nil, workers: Int = 1) throws -> ProxyShared {
        let plan = RoutePlan(
            name: "api",
            upstream: Origin(scheme: .http, host: "127.0.0.1", port: port),
            upstreamPath: "",
            matchPath: "/api",
            matchHosts: [],
            credential: nil,
            span: SourceSpan(file: 0, line: 1, column: 1)
        )
        var single = Limits()
        single.connectionsPerUpstream = 1
        return try ProxyShared(
            configuration: ProxyConfiguration(
                routes: [ProxyRoute(plan: plan, source: nil, selection: nil, number: 0)],
                access: AccessPlan(clients: [], allowedOrigins: [], requireClient: .auto),
                limits: limits ?? single,
                sha256: { $0 }
            ),
            workers: workers,
            state: ProxyState(
                clock: TestClock(),
                observer: RecordingObserver(),
                logger: Logger(label: "test"),
                limits: limits ?? single,
                workers: workers
            )
        )
    }
}
