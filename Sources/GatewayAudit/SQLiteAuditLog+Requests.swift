import GRDB
package import GatewayCore
import GatewayFiles
import Logging
import Synchronization

/// Requests that wait to be written.
struct PendingRequests {
    /// More are refused rather than held in memory.
    static let limit = 65_536
    /// Written in one transaction, so that a token event does not wait for long.
    static let batchLimit = 2048

    private var requests: [RequestUse] = []
    var isWriting = false
    /// The last attempt failed, and that was said.
    var isFailing = false

    var isEmpty: Bool { requests.isEmpty }

    /// - Returns: How many there was no place for.
    mutating func add(_ new: [RequestUse]) -> Int {
        let accepted = min(new.count, max(0, Self.limit - requests.count))
        requests.append(contentsOf: new.prefix(accepted))
        return new.count - accepted
    }

    var batch: [RequestUse] { Array(requests.prefix(Self.batchLimit)) }

    mutating func written(_ count: Int) { requests.removeFirst(count) }
}

extension SQLiteAuditLog {
    package func keep(_ new: [RequestUse]) -> Int {
        guard hasRoom(for: .traffic) else { return new.count }
        let (lost, starts) = requests.withLock { requests in
            let lost = requests.add(new)
            let starts = !requests.isWriting && !requests.isEmpty
            if starts { requests.isWriting = true }
            return (lost, starts)
        }
        if starts { writer.start { self.writeRequests() } }
        return lost
    }

    /// Writes what waits. On the thread only.
    func writeAllRequests() {
        while writeBatch() {}
    }

    /// One batch after the other; events that were accepted meanwhile come in between.
    private func writeRequests() {
        if writeBatch() { writer.start { self.writeRequests() } }
    }

    /// - Returns: Whether there is more to write.
    private func writeBatch() -> Bool {
        // Taken out only when it is written: only this thread removes any.
        let batch = requests.withLock { $0.batch }
        let result = Result {
            try commit(waitingForLock: backgroundLockLimit) { try add(batch, to: $0) }
        }
        measure()
        let (isNews, more) = requests.withLock { requests in
            switch result {
            case .success:
                requests.written(batch.count)
                requests.isFailing = false
                requests.isWriting = !requests.isEmpty
                return (false, requests.isWriting)
            case .failure:
                defer { requests.isFailing = true }
                requests.isWriting = false
                return (!requests.isFailing, false)
            }
        }
        guard case .failure(let error) = result else { return more }
        suspect()
        if isNews {
            let reason = auditError(error, file: options.path).reason
            logger.warning("requests were not written to the audit log", metadata: ["reason": "\(reason)"])
        }
        return more
    }

    private func add(_ batch: [RequestUse], to database: Database) throws {
        guard !batch.isEmpty else { return }
        try database.inTransaction(.immediate) {
            let insertion = try database.cachedStatement(sql: Self.requestInsertion)
            for request in batch {
                try insertion.execute(arguments: [
                    request.at.rfc3339, SafeText.singleLine(request.requestID), SafeText.singleLine(request.route),
                    request.client.map { SafeText.singleLine($0) }, SafeText.singleLine(request.method, limit: 64),
                    request.status, request.problem?.rawValue, request.credential.map { SafeText.singleLine($0) },
                    request.generation, request.wasReplayed ? 1 : 0, request.bytesReceived, request.bytesSent,
                    request.duration.wholeMilliseconds, options.instance,
                    request.clientRequestID.map { SafeText.singleLine($0) }, request.failure?.reason.description,
                    request.timings.credential?.wholeMilliseconds, request.timings.connection?.wholeMilliseconds,
                    request.timings.response?.wholeMilliseconds,
                ])
            }
            return .commit
        }
    }

    private static let requestInsertion = """
        INSERT INTO token_requests (\(AuditSchema.requestColumns.dropFirst().joined(separator: ", ")))
        VALUES (\(AuditSchema.requestColumns.dropFirst().map { _ in "?" }.joined(separator: ", ")))
        """
}
