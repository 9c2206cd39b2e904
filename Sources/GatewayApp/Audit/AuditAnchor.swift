import GatewayAudit
import GatewayEvents
import GatewayHTTP
import Logging
import Synchronization

/// Sends the head of the audit log to its anchor, and says when that fails, or when the log is older than what was sent.
///
/// Nothing waits for it: a token event is committed before its head is sent.
package final class AuditAnchor: Sendable {
    private struct State {
        var schedule = AnchorSchedule()
        /// The last row that needs not be sent.
        var sent: Int64
        /// What the start found.
        var finding: String?
        /// What the start found if the log is not the one that was sent.
        var contradiction: String?
    }

    /// The newest heads, some 1000, are compared at the start; `audit verify` compares all.
    private static let bytesComparedAtStart = 170_000

    private let sink: AnchorSink
    private let log: SQLiteAuditLog
    private let clock: any GatewayClock
    private let logger: Logger
    private let state: Mutex<State>

    init(_ plan: AnchorPlan, log: SQLiteAuditLog, clock: any GatewayClock, logger: Logger) {
        sink = AnchorSink(plan)
        self.log = log
        self.clock = clock
        self.logger = logger
        state = Mutex(State(sent: log.headToAnchor()?.id ?? 0))
    }

    /// Why the log is not the one that was sent; nil when it is, or when that is not known.
    var contradiction: String? { state.withLock { $0.contradiction } }

    /// What somebody should know.
    var reasons: [String] {
        let state = state.withLock { $0 }
        let failure = state.schedule.failure.map {
            "since \($0.since.rfc3339) the head of the audit log does not reach its anchor (\(sink.plan.name)): \($0.reason); "
                + "requests and tokens do not wait for it"
        }
        return [state.finding, failure].compactMap(\.self)
    }

    /// Before the first event of a start: afterwards the log goes on, from wherever it was put back to.
    ///
    /// The start is not refused. The usual cause is a backup that was restored, and the proof stays at the anchor.
    func compare() async {
        let finding: String?
        do throws(AuditError) {
            guard let heads = try await sink.heads(within: Self.bytesComparedAtStart) else { return }
            let contradiction = try await log.contradiction(of: heads.suffix(1000))
            state.withLock { $0.contradiction = contradiction }
            finding = contradiction.map {
                "the audit log does not match its anchor (\(sink.plan.name)): \($0). Run `authgateway audit verify`. Restore the "
                    + "log, or, where a new one was meant, move the lines of the anchor away, and restart"
            }
        } catch {
            finding = "the audit log was not compared with its anchor (\(sink.plan.name)) at the start: \(error.reason)"
        }
        guard let finding else { return }
        state.withLock { $0.finding = finding }
        logger.error("\(finding)")
    }

    /// Sends what is committed, until the task is cancelled or the log is closed.
    func run() async {
        var changes = log.headChanges.makeAsyncIterator()
        while !Task.isCancelled {
            if unsentHead == nil {
                guard await changes.next() != nil else { return }
            }
            let pause = state.withLock { $0.schedule.pause(at: clock.monotonic()) }
            guard (try? await clock.sleep(for: pause)) != nil else { return }
            await send()
        }
    }

    /// The last events, those of the stop among them.
    func finish() async { await send() }

    private var unsentHead: AnchoredHead? {
        guard let head = log.headToAnchor(), head.id != state.withLock({ $0.sent }) else { return nil }
        return head
    }

    private func send() async {
        guard let head = unsentHead else { return }
        var failure: AuditError?
        do throws(AuditError) {
            try await sink.send(head)
        } catch {
            failure = error
        }
        // Sent again by the stop, which cancels what is under way.
        guard failure == nil || !Task.isCancelled else { return }
        let now = clock.now()
        let isChange = state.withLock { state in
            if failure == nil { state.sent = head.id }
            return state.schedule.ended(failure?.reason, at: now)
        }
        guard isChange else { return }
        let metadata: Logger.Metadata = ["anchor": "\(sink.plan.name)", "row": "\(head.id)"]
        if let failure {
            let reason: Logger.Metadata = ["reason": "\(failure.reason)"]
            logger.error(
                "The head of the audit log did not reach its anchor",
                metadata: metadata.merging(reason) { $1 }
            )
        } else {
            logger.notice("The head of the audit log reaches its anchor again", metadata: metadata)
        }
    }
}
