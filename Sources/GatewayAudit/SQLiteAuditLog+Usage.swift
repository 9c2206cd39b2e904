import GRDB
package import GatewayCore
import GatewayFiles
import Logging
import Synchronization

/// Uses counted since the last flush.
struct UsageCounts {
    /// Distinct keys held at once. One minute of a hundred routes with a hundred clients each fits.
    static let limit = 16_384

    var uses: [TokenUse.Key: TokenUse] = [:]
    var dropped = 0

    mutating func add(_ use: TokenUse) {
        guard var sum = uses[use.key] else {
            guard uses.count < Self.limit else {
                dropped += use.requests
                return
            }
            uses[use.key] = use
            return
        }
        sum.requests += use.requests
        sum.bytesReceived += use.bytesReceived
        sum.bytesSent += use.bytesSent
        uses[use.key] = sum
    }
}

extension SQLiteAuditLog {
    package func count(_ use: TokenUse) {
        guard options.recordsUsage else { return }
        let hasRoom = hasRoom(for: .traffic)
        usage.withLock { usage in
            if hasRoom { usage.add(use) } else { usage.dropped += use.requests }
        }
    }

    /// Requests that were not counted: too many different uses waited to be written, or the log has no room for them.
    package var droppedUses: Int { usage.withLock { $0.dropped } }

    /// Writes usage every few seconds and removes rows that are past their retention, until the task is cancelled.
    package func run() async {
        var sincePruning = Duration.zero
        await prune()
        while (try? await clock.sleep(for: options.usageInterval)) != nil {
            await flushUsage()
            sincePruning += options.usageInterval
            if sincePruning >= (isPruningUrgent ? .seconds(60) : .seconds(3600)) {
                await prune()
                sincePruning = .zero
            }
        }
        await flushUsage()
    }

    private var isPruningUrgent: Bool { !hasRoom(for: .traffic) || state.withLock { $0.shipping.holdsRetention } }

    /// Adds what was counted to `token_use`. What cannot be written now is kept for the next time, within the limit.
    package func flushUsage() async {
        // When the thread does not answer, it writes what there is as soon as it does.
        _ = try? await writer.perform(within: options.recordLimit) { self.writeUsage() }
    }

    /// On the thread only.
    func writeUsage() {
        let uses = usage.withLock { usage in
            defer { usage.uses = [:] }
            return usage.uses.values.map { $0 }
        }
        guard !uses.isEmpty else { return }
        do {
            let first = uses.map(\.key.minute).min()?.rfc3339 ?? ""
            try commit(waitingForLock: backgroundLockLimit) { try Self.add(uses, since: first, to: $0) }
            state.withLock { $0.shipping.noteUse(changedAt: first) }
            measure()
        } catch {
            usage.withLock { usage in
                for use in uses { usage.add(use) }
            }
            suspect()
            let reason = auditError(error, file: options.path).reason
            logger.warning("usage was not written to the audit log", metadata: ["reason": "\(reason)"])
        }
    }

    private static func add(_ uses: [TokenUse], since first: String, to database: Database) throws {
        try database.inTransaction(.immediate) {
            try ShippingMarks.note(useChangedAt: first, in: database)
            let addition = try database.cachedStatement(
                sql: """
                    INSERT INTO token_use (minute, route, client, credential, generation, status_class, requests,
                        bytes_received, bytes_sent)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                    ON CONFLICT DO UPDATE SET requests = requests + excluded.requests,
                        bytes_received = bytes_received + excluded.bytes_received,
                        bytes_sent = bytes_sent + excluded.bytes_sent
                    """
            )
            for use in uses {
                try addition.execute(arguments: [
                    use.key.minute.rfc3339, SafeText.singleLine(use.key.route),
                    SafeText.singleLine(use.key.client ?? ""), SafeText.singleLine(use.key.credential),
                    use.key.generation, use.key.statusClass, use.requests, use.bytesReceived, use.bytesSent,
                ])
            }
            return .commit
        }
    }
}
