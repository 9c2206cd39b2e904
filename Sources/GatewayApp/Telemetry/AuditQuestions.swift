import GatewayAudit
import GatewayHTTP
import GatewayProxy
import Synchronization

/// Answers questions that may read the audit log's file for seconds, one at a time for all clients together: each takes a thread and
/// memory, and goes on when its client leaves. Operators' operations never wait for them.
///
/// Clients take turns. One that asks all the time delays the others by no more than its current question.
package final class AuditQuestions: Sendable {
    /// The shortest time between two writes of the counts that questions cause.
    private static let interval = Duration.seconds(1)

    private let reader: AuditReader
    private let patience: Duration
    private let turns = Mutex(Turns())
    private let lastWrite = Mutex<ContinuousClock.Instant?>(nil)

    private struct Turns {
        var isTaken = false
        var waiting = FairQueue<Promise<Bool>>(limit: 16)
    }

    /// - Parameter patience: How long a question waits for its turn.
    package init(path: String, patience: Duration = .seconds(15)) {
        reader = AuditReader(path: path)
        self.patience = patience
    }

    /// - Parameters:
    ///   - client: Who asks. The clients whose questions wait take turns.
    ///   - writeUses: Called before the question, not more than once a second. A question that comes sooner waits.
    /// - Returns: nil if too many questions wait, or this one has waited for too long.
    func ask<Answer: Sendable>(
        by client: String?,
        afterWriting writeUses: (@Sendable () async -> Bool)? = nil,
        _ question: @Sendable (AuditReader) async -> Answer
    ) async -> Answer? {
        guard await takeTurn(client) else { return nil }
        defer { passTurn() }
        if let writeUses {
            if let last = lastWrite.withLock(\.self) {
                try? await Task.sleep(until: last + Self.interval, clock: .continuous)
            }
            _ = await writeUses()
            lastWrite.withLock { $0 = .now }
        }
        return await question(reader)
    }

    /// How many questions wait for their turn.
    var waitingCount: Int { turns.withLock(\.waiting.count) }

    private func takeTurn(_ client: String?) async -> Bool {
        let place = Promise<Bool>()
        var displaced: Promise<Bool>?
        let ticket: WaiterTicket? = turns.withLock { turns in
            guard turns.isTaken else {
                turns.isTaken = true
                place.keep(true)
                return nil
            }
            switch turns.waiting.append(place, client: client) {
            case .queued(let ticket): return ticket
            case .displaced(_, let waiter, by: let ticket):
                displaced = waiter
                return ticket
            case .refused:
                place.keep(false)
                return nil
            }
        }
        displaced?.keep(false)
        guard let ticket else { return await place.value() }
        let watchdog = Task { [patience] in
            guard (try? await Task.sleep(for: patience)) != nil else { return }
            giveUp(ticket)
        }
        defer { watchdog.cancel() }
        return await withTaskCancellationHandler {
            await place.value()
        } onCancel: {
            giveUp(ticket)
        }
    }

    /// Has no effect once the question has got its turn.
    private func giveUp(_ ticket: WaiterTicket) { turns.withLock { $0.waiting.remove(ticket) }?.keep(false) }

    private func passTurn() {
        let next = turns.withLock { turns in
            let next = turns.waiting.popFirst()?.element
            turns.isTaken = next != nil
            return next
        }
        next?.keep(true)
    }

    /// The answer to a client whose question did not get its turn.
    static var problem: GatewayProblem {
        GatewayProblem(
            .overloaded,
            "Too many questions to the audit log are waiting, and it answers one at a time.",
            retryAfter: .seconds(1)
        )
    }
}

/// Combines concurrent requests to write the counts into one write.
package actor CoalescedWrites {
    private let write: @Sendable () async -> Bool
    private var underWay: Task<Bool, Never>?
    /// Has not begun yet, so it will write everything that has been counted until now.
    private var next: Task<Bool, Never>?

    package init(_ write: @escaping @Sendable () async -> Bool) { self.write = write }

    /// - Returns: Whether everything that was counted before the call has been written.
    package func perform() async -> Bool {
        if let next { return await next.value }
        let task = Task { [underWay] in
            _ = await underWay?.value
            return await performNext()
        }
        next = task
        return await task.value
    }

    private func performNext() async -> Bool {
        (underWay, next) = (next, nil)
        return await write()
    }
}
