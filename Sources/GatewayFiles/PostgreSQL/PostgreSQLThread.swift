import Foundation
import GatewayHTTP
import Synchronization

/// What the thread of a ``PostgreSQLConnection`` does.
struct PostgreSQLThread: ~Copyable {
    let owner: PostgreSQLConnection
    var session: LibPQ?
    var failures = 0
    /// When this session began.
    var openedAt = ContinuousClock.now
    var nextAttempt = ContinuousClock.now
    /// Until now without an answer while nothing was asked: time to see whether the server is still there.
    var nextProbe = ContinuousClock.now

    static let probeInterval: Duration = .seconds(15)
    static let setupLimit: Duration = .seconds(5)
    /// A server that takes no writes is given up for another one, or for other settings, at most this often.
    static let renewalPause: Duration = .seconds(5)

    var mayRenew: Bool { ContinuousClock.now - openedAt >= Self.renewalPause }

    private init(_ owner: PostgreSQLConnection) { self.owner = owner }

    static func start(_ owner: PostgreSQLConnection) {
        let thread = Thread {
            var thread = PostgreSQLThread(owner)
            thread.serve()
        }
        thread.name = "postgresql"
        thread.stackSize = 1 << 20
        thread.start()
    }

    private enum Step {
        case end
        case run(PostgreSQLConnection.Work)
        case wait
        case renew
    }

    private mutating func serve() {
        while true {
            switch nextStep() {
            case .end:
                endSession()
                owner.ended.keep(())
                return
            case .run(let work): run(work)
            case .wait: waitIdle()
            case .renew:
                endSession()
                nextAttempt = .now
            }
        }
    }

    private func nextStep() -> Step {
        let (hasSession, mayRenew) = (session != nil, self.mayRenew)
        return owner.state.withLock { state in
            Self.dropAbandoned(&state)
            if state.isClosed, !state.hasWork || !hasSession {
                state.refuseAll("the connection was closed")
                return .end
            }
            if state.isStale {
                state.isStale = false
                if hasSession, mayRenew { return .renew }
            }
            guard hasSession, let work = state.next() else { return .wait }
            return .run(work)
        }
    }

    /// The caller has left, or the deadline has passed: the statement is never sent.
    private static func dropAbandoned(_ state: inout PostgreSQLConnection.State) {
        while let work = state.again ?? state.queue.first, work.end.isKept || work.deadline <= .now {
            let failure = state.trouble?.failure.reason ?? "the server did not answer in time"
            work.end.keep(.failure(PostgreSQLFailure(.notSent, failure)))
            _ = state.next()
        }
    }

    // MARK: Without work

    private mutating func waitIdle() {
        if session == nil {
            guard ContinuousClock.now >= nextAttempt else {
                _ = owner.wake.wait(beside: nil, until: nextAttempt)
                return
            }
            connect()
            return
        }
        let isReadable = owner.wake.wait(beside: session?.socket, until: nextProbe)
        if isReadable { takeNotifications() } else if ContinuousClock.now >= nextProbe { probe() }
    }
}

extension PostgreSQLConnection.State {
    var hasWork: Bool { again != nil || !queue.isEmpty }

    mutating func next() -> PostgreSQLConnection.Work? { again.take() ?? queue.removeFirst() }

    mutating func refuseAll(_ reason: String) {
        while let work = next() { work.end.keep(.failure(PostgreSQLFailure(.notSent, reason))) }
    }
}
