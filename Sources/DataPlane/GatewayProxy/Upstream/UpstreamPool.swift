import GatewayCore
import Logging
import NIOCore
import NIOPosix
import NIOSSL

/// The connections of one event loop to one target. A proxied request never changes thread.
final class UpstreamPool {
    typealias Done = (Result<any UpstreamStream, GatewayProblem>) -> Void

    private struct Waiter {
        let number: UInt64
        /// The last one died under its request.
        let isFresh: Bool
        let done: Done
        let deadline: Scheduled<Void>
    }

    private let target: UpstreamTarget
    private let loop: any EventLoop
    let deadlines: DeadlineQueue
    private let resolver: UpstreamResolver
    private let limits: Limits
    private let timeouts: Timeouts
    private let clock: LoopClock
    private let buffers: SpareBuffers
    private let logger: Logger
    /// Said once, not for every connection.
    private var wrongKey: CertificatePin?
    private let mostWaiting: Int
    /// Open or being opened.
    private var count = 0
    /// Holds this pool, while it has connections or waiters.
    private var seat: ConnectionBudget.Seat?
    /// For a place, on behalf of whoever waits first.
    private var isAsking = false
    private var waiters: CircularBuffer<Waiter> = []
    private var lastWaiter: UInt64 = 0
    private var isServing = false
    /// For what it can spare.
    private var isLooking = false
    private var isRetired = false
    /// The most recently used last: it is the least likely to have been closed meanwhile.
    private var idle: [HTTP1UpstreamConnection] = []

    init(target: UpstreamTarget, worker: Worker, shared: ProxyShared) {
        self.target = target
        loop = worker.loop
        deadlines = worker.deadlines
        resolver = UpstreamResolver(loop: worker.loop)
        clock = worker.clock
        buffers = worker.buffers
        logger = shared.logger
        limits = shared.limits
        timeouts = shared.timeouts
        mostWaiting = shared.pendingPerUpstream
        idle.reserveCapacity(64)
    }

    var key: UpstreamTarget.Key { target.key }
    private var budget: ConnectionBudget { target.budget }

    /// A connection that was open a moment ago; it may still die on first use. None while others wait for one.
    ///
    /// - Parameter mayRepeat: The request may be sent again where the connection turns out to have ended.
    func takeIdle(mayRepeat: Bool) -> HTTP1UpstreamConnection? {
        waiters.isEmpty ? popIdle(mayRepeat: mayRepeat) : nil
    }

    /// The connection that would be taken is in the middle of a read, where a request comes that its client had sent ahead.
    var isBusyReading: Bool { idle.last?.mayBeEnding ?? false }

    private func popIdle(mayRepeat: Bool = false) -> HTTP1UpstreamConnection? {
        while let candidate = idle.popLast() {
            guard candidate.isOpen else { continue }
            guard !mayRepeat || isToBeLookedAt(candidate), candidate.hasInput else { return candidate }
            candidate.abandon(isCut: false)
        }
        return nil
    }

    /// Bytes that came before the request are no answer to it, and their event may wait behind that of the request. To look
    /// costs a system call, a thirtieth of a busy loop's time (docs/adr/0067): not where all was read a moment ago.
    private func isToBeLookedAt(_ connection: HTTP1UpstreamConnection) -> Bool {
        connection.mayHaveInput || connection.hasRested(for: Self.glance)
    }

    private static let glance = TimeAmount.milliseconds(5)

    /// One that whoever waits first may take.
    private func popIdleForWaiter() -> HTTP1UpstreamConnection? {
        waiters.first?.isFresh ?? true ? nil : popIdle()
    }

    func putBack(_ connection: HTTP1UpstreamConnection) {
        guard !givesWay(rests: false) else { return connection.abandon(isCut: false) }
        guard !isRetired || !waiters.isEmpty else { return connection.close() }
        idle.append(connection)
        serveWaiters()
    }

    func remove(_ connection: HTTP1UpstreamConnection) {
        if let index = idle.lastIndex(where: { $0 === connection }) { idle.remove(at: index) }
    }

    /// A reload has no use for it: no connection is kept beyond the requests that are under way.
    func retire() {
        isRetired = true
        closeIdle()
    }

    func closeIdle() {
        let connections = idle
        idle.removeAll()
        for connection in connections { connection.close() }
    }

    /// Opens a connection; when there are as many as there may be, waits until one is free.
    ///
    /// - Parameters:
    ///   - isFresh: None that was open already: the last one died under the request.
    ///   - done: May be called before this returns.
    /// - Returns: The place of who has to wait, to be given up with ``leave(_:)``.
    func connect(isFresh: Bool, _ done: @escaping Done) -> UInt64? {
        // Who has waited is served first, on the turn that is about to come; but who lost a connection has waited for that one.
        if waiters.isEmpty || isFresh, hasPlace() {
            open(done)
            return nil
        }
        guard waiters.count < mostWaiting else {
            let detail = "\(target.origin) has as many connections and waiting requests as limits allows."
            done(.failure(GatewayProblem(.upstreamBusy, detail, retryAfter: .seconds(1))))
            return nil
        }
        lastWaiter &+= 1
        let number = lastWaiter
        let deadline = loop.assumeIsolated().scheduleTask(in: timeouts.connect) { [self] in
            gaveUp(number)
        }
        let waiter = Waiter(number: number, isFresh: isFresh, done: done, deadline: deadline)
        let first = isFresh ? waiters.firstIndex { !$0.isFresh } : nil
        waiters.insert(waiter, at: first ?? waiters.endIndex)
        if isFresh { serveWaiters() }
        return number
    }

    private func hasPlace() -> Bool {
        guard !isAsking else { return false }
        let seat = seat ?? ConnectionBudget.Seat(self, on: loop)
        if self.seat == nil { budget.join(seat) }
        self.seat = seat
        isAsking = !budget.take(for: seat)
        return !isAsking
    }

    private func givesWay(rests: Bool) -> Bool {
        // Asked with every request: mostly one look.
        guard budget.isWaitedFor, let seat else { return false }
        return budget.promise(by: seat, rests: rests)
    }

    private func leaveSeatIfDone() {
        guard let seat, waiters.isEmpty else { return }
        if isAsking { isAsking = !budget.withdraw(seat) }
        guard count == 0, !isAsking else { return }
        budget.leave(seat)
        self.seat = nil
    }

    /// The place that was waited for; it is this pool's.
    func placeGranted() {
        isAsking = false
        count += 1
        while let connection = popIdleForWaiter() { nextWaiter()?(.success(connection)) }
        if let done = nextWaiter() { dial(done) } else { connectionEnded() }
        serveWaiters()
    }

    /// Closes what nobody uses, for loops that wait; the connections that have rested longest.
    func spareIdle() {
        guard waiters.isEmpty else { return }
        while idle.first?.hasRested(for: Self.rest) ?? false, givesWay(rests: true) { idle.removeFirst().abandon(isCut: false) }
        guard !idle.isEmpty, budget.isWaitedFor, !isLooking else { return }
        isLooking = true
        loop.assumeIsolated().scheduleTask(in: Self.rest) { [self] in
            isLooking = false
            spareIdle()
        }
    }

    /// Whoever has just been answered may ask again.
    private static let rest = TimeAmount.milliseconds(10)

    /// Nobody waits in this place any longer; without effect when its turn has come already.
    func leave(_ place: UInt64) {
        remove(place)?.deadline.cancel()
    }

    private func remove(_ number: UInt64) -> Waiter? {
        guard let index = waiters.firstIndex(where: { $0.number == number }) else { return nil }
        defer {
            leaveSeatIfDone()
            serveWaiters()
        }
        return waiters.remove(at: index)
    }

    private func gaveUp(_ number: UInt64) {
        guard let waiter = remove(number) else { return }
        let detail = "No connection to \(target.origin) became free within \(ConfigUnits.text(limits.connectTimeout))."
        waiter.done(.failure(GatewayProblem(.upstreamBusy, detail, retryAfter: .seconds(1))))
    }

    /// On a turn of its own: whoever put a connection back is still busy with it. Where nobody waits, what rests is for others.
    private func serveWaiters() {
        let isSpare = !idle.isEmpty && (isRetired || budget.isWaitedFor)
        guard !waiters.isEmpty || isSpare, !isServing else { return }
        isServing = true
        loop.assumeIsolated().execute { [self] in
            isServing = false
            while let isFresh = waiters.first?.isFresh {
                if let connection = popIdleForWaiter() {
                    nextWaiter()?(.success(connection))
                } else if hasPlace() {
                    nextWaiter().map(open)
                } else {
                    if isFresh, !idle.isEmpty, let seat, budget.promiseToItself(seat) {
                        idle.removeFirst().abandon(isCut: false)
                    }
                    return
                }
            }
            // Who it was put back for has left meanwhile.
            if isRetired { closeIdle() } else { spareIdle() }
        }
    }

    private func nextWaiter() -> Done? {
        guard let waiter = waiters.popFirst() else { return nil }
        if waiters.isEmpty, isAsking, let seat { isAsking = !budget.withdraw(seat) }
        waiter.deadline.cancel()
        return waiter.done
    }

    /// A connection that has a place is closed, or could not be opened.
    func connectionEnded() {
        count -= 1
        if let seat { budget.giveBack(by: seat) }
        leaveSeatIfDone()
    }

    /// The upstream is trusted and shows a key that is not among the pinned ones.
    func showedWrongKey(_ seen: CertificatePin) {
        guard seen != wrongKey else { return }
        wrongKey = seen
        logger.warning(
            "Upstream shows a key that tls.pin does not name",
            metadata: ["gateway.upstream": "\(target.origin)", "gateway.pin": "\(seen)"]
        )
    }

    /// There is a place for it.
    private func open(_ done: @escaping Done) {
        count += 1
        dial(done)
    }

    /// Resolved asynchronously, happy eyeballs (RFC 8305), bounded by `connect_timeout`.
    private func dial(_ done: @escaping Done) {
        let target = target
        let bound = NIOLoopBound(self, eventLoop: loop)
        let hasDialled = NIOLoopBoundBox(false, eventLoop: loop)
        ClientBootstrap(group: loop)
            .resolver(resolver)
            .connectTimeout(timeouts.connect)
            .channelOption(.maxMessagesPerRead, value: UInt(target.tlsContext == nil ? 1 : 4))
            .channelOption(.writeBufferWaterMark, value: .init(low: 32_768, high: 131_072))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    hasDialled.value = true
                    if let context = target.tlsContext {
                        try channel.pipeline.syncOperations.addHandler(target.tlsHandler(context))
                    }
                    let handler = bound.value.makeHandler()
                    let allocator = bound.value.receiveAllocator(for: handler)
                    try channel.syncOptions?.setOption(.recvAllocator, value: allocator)
                    try channel.pipeline.syncOperations.addHandler(handler)
                }
            }
            .connect(host: target.origin.host, port: target.origin.port)
            .assumeIsolated()
            .whenComplete { [self] result in
                switch result {
                case .success(let channel): opened(channel, done)
                case .failure(let error):
                    resolver.forget()
                    connectionEnded()
                    done(.failure(UpstreamFailure.problem(error, target.origin, isUnresolved: !hasDialled.value)))
                }
            }
    }

    private func receiveAllocator(for handler: HTTP1UpstreamConnection) -> any RecvByteBufferAllocator {
        // The TLS handler keeps what it reads until a record is whole.
        handler.encryptedReadWasFilled.map { WatchedReadAllocator($0) } ?? SharedReadAllocator(buffers, of: loop)
    }

    private func makeHandler() -> HTTP1UpstreamConnection {
        HTTP1UpstreamConnection(
            pool: self,
            hasDirectSocket: target.tlsContext == nil,
            loop: loop,
            clock: clock,
            limits: limits,
            timeouts: timeouts,
            buffers: buffers
        )
    }

    private func opened(_ channel: any Channel, _ done: @escaping Done) {
        do {
            let handler = try channel.pipeline.syncOperations.handler(type: HTTP1UpstreamConnection.self)
            if !handler.count() { connectionEnded() }
            handler.whenReady(origin: target.origin, done)
        } catch {
            channel.close(promise: nil)
            connectionEnded()
            done(.failure(UpstreamFailure.problem(error, target.origin)))
        }
    }
}
