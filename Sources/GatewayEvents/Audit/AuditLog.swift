package import GatewayHTTP

/// Where token events are written.
package protocol AuditLog: Sendable {
    /// Returns once the event is committed and would survive a crash. Waits for a limited time.
    ///
    /// - Throws: Why the event is not recorded. It is not recorded later either, unless its commit was under way by then.
    func record(_ event: TokenEvent) async throws(AuditError)

    /// Records what has been done and cannot be undone. What cannot be written now is kept in memory, and written as soon as
    /// the log works again.
    ///
    /// - Returns: nil once the event is committed; otherwise why it is not recorded yet.
    func recordSoon(_ event: TokenEvent) async -> AuditError?

    /// Counts a use. Never blocks; drops and counts the drop when its queue is full.
    func count(_ use: TokenUse)

    /// Takes what is to be written of single requests. Never blocks.
    ///
    /// - Returns: How many it had no place for.
    func keep(_ requests: [RequestUse]) -> Int
}

/// Why the audit log, its copy or its anchor cannot be written or read. The reason ends a sentence that says what was tried.
package struct AuditError: Error, Hashable, Sendable {
    package let reason: String
    package init(_ reason: String) { self.reason = reason }

    /// For an operator who took a right away, which holds already.
    package var lateRecord: String {
        "That is not recorded yet: \(reason). It will be recorded as soon as the audit log can be written."
    }

    /// For an operator who unlocks a credential, which holds only once it is recorded.
    package func unlockProblem(of credential: String) -> GatewayProblem {
        let detail = "\(credential) is still locked: the audit log cannot record the unlock (\(reason))."
        return GatewayProblem(.auditUnavailable, detail)
    }
}

/// How much room the audit log has, and which rows it still takes.
///
/// Failed requests, denials and uses stop first. The last tenth of `audit.max_bytes` is a reserve for token and operator
/// events, and the last quarter of the reserve is for operator events alone.
package struct AuditRoom: Hashable, Sendable {
    /// The room of the file system that holds the log.
    package struct Disk: Hashable, Sendable {
        package let freeBytes: Int
        package let totalBytes: Int

        package init(freeBytes: Int, totalBytes: Int) {
            self.freeBytes = freeBytes
            self.totalBytes = totalBytes
        }

        /// What is left to token and operator events: a twentieth of a small disk, 32 MiB of a larger one.
        package var reserve: Int { min(totalBytes / 20, 32 << 20) }
    }

    package enum Shortage: Hashable, Sendable {
        /// `audit.max_bytes`.
        case limit
        case disk
    }

    package static let defaultLimit = 10 << 30

    /// The size of the database, without the pages that pruning has freed, and of its write-ahead log.
    package var usedBytes: Int
    package let limit: Int
    /// nil when the system does not tell.
    package var disk: Disk?
    /// The last row was refused because the disk is full. A quota does not show in ``disk``.
    package var isDiskFull = false

    package init(usedBytes: Int, limit: Int, disk: Disk? = nil) {
        self.usedBytes = usedBytes
        self.limit = limit
        self.disk = disk
    }

    /// - Returns: Why rows of this priority are not taken; nil when they are.
    package func shortage(for priority: AuditPriority) -> Shortage? {
        if usedBytes >= bytes(for: priority) { return .limit }
        // Other programs may fill the disk: what is not written for requests is left to tokens, which try in any case.
        guard priority == .traffic else { return nil }
        return isDiskFull || disk.map { $0.freeBytes < $0.reserve } ?? false ? .disk : nil
    }

    /// For the operator.
    package func explanation(of shortage: Shortage) -> String {
        switch shortage {
        case .disk: "the disk that holds the audit log is almost full; free some space"
        case .limit:
            "it holds \(usedBytes >> 20) MiB of \(ConfigUnits.text(bytes: limit)) (audit.max_bytes); raise audit.max_bytes or "
                + "shorten audit.retention, and restart the gateway"
        }
    }

    private func bytes(for priority: AuditPriority) -> Int {
        switch priority {
        case .traffic: limit - limit / 10
        case .token: limit - limit / 40
        case .operator: limit
        }
    }
}
