import GatewayAudit
import GatewayHTTP
import Synchronization

/// Answers questions that may read the audit log's file for seconds, one at a time for all clients together: each takes a thread and
/// memory, and goes on when its client leaves. Operators' operations never wait for them.
package final class AuditQuestions: Sendable {
    /// The shortest time between two writes of the counts that questions cause.
    private static let interval = Duration.seconds(1)

    private let reader: AuditReader
    private let isAsked = Atomic(false)
    private let lastWrite = Mutex<ContinuousClock.Instant?>(nil)

    package init(path: String) { reader = AuditReader(path: path) }

    /// - Parameter writeUses: Called before the question, not more than once a second. A question that comes sooner waits.
    /// - Returns: nil while another question is being answered.
    func ask<Answer: Sendable>(
        afterWriting writeUses: (@Sendable () async -> Bool)? = nil,
        _ question: @Sendable (AuditReader) async -> Answer
    ) async -> Answer? {
        guard !isAsked.exchange(true, ordering: .sequentiallyConsistent) else { return nil }
        defer { isAsked.store(false, ordering: .sequentiallyConsistent) }
        if let writeUses {
            if let last = lastWrite.withLock(\.self) {
                try? await Task.sleep(until: last + Self.interval, clock: .continuous)
            }
            _ = await writeUses()
            lastWrite.withLock { $0 = .now }
        }
        return await question(reader)
    }

    /// The answer to a client that asks while another question is being answered.
    static var problem: GatewayProblem {
        GatewayProblem(
            .overloaded,
            "Another question to the audit log is being answered, and there is one at a time.",
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
