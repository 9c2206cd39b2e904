import Foundation
import GatewayCore
import Synchronization

/// What the thread of a ``PostgreSQLConnection`` does.
struct PostgreSQLThread: ~Copyable {
    let owner: PostgreSQLConnection
    var session: LibPQ?
    var failures = 0
    /// Statements of this session.
    var answered = 0
    var nextAttempt = ContinuousClock.now
    /// Until now without an answer while nothing was asked: time to see whether the server is still there.
    var nextProbe = ContinuousClock.now

    static let probeInterval: Duration = .seconds(15)
    static let setupLimit: Duration = .seconds(5)

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
                session = nil
                owner.ended.keep(())
                return
            case .run(let work): run(work)
            case .wait: waitIdle()
            case .renew:
                session = nil
                nextAttempt = .now
            }
        }
    }

    private func nextStep() -> Step {
        let hasSession = session != nil
        return owner.state.withLock { state in
            // The caller has left, or the deadline has passed: the statement is never sent.
            state.queue.removeAll { work in
                guard !work.end.isKept, work.deadline > .now else {
                    let failure = state.trouble?.failure.reason ?? "the server did not answer in time"
                    work.end.keep(.failure(PostgreSQLFailure(.notSent, failure)))
                    return true
                }
                return false
            }
            if state.isClosed, state.queue.isEmpty || !hasSession {
                for work in state.queue {
                    work.end.keep(.failure(PostgreSQLFailure(.notSent, "the connection was closed")))
                }
                state.queue = []
                return .end
            }
            if state.isStale {
                state.isStale = false
                return .renew
            }
            guard hasSession, !state.queue.isEmpty else { return .wait }
            return .run(state.queue.removeFirst())
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
