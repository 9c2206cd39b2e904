import GRDB
import GatewayCore
import GatewayFiles
import Logging
import Synchronization

/// The file itself: whether it is still there, what follows when it is gone, and its end.
extension SQLiteAuditLog {
    /// What is written into a file that is gone is lost. On the thread only.
    func requireFileInPlace() throws {
        let file = state.withLock { $0.file }
        switch (writer.track { file.place }, options.onMissing) {
        case (.inPlace, _): return
        case (.missing, .recreate): try beginAnew()
        case (.missing, .refuse):
            throw AuditError(
                "the audit log \(options.path) is gone: it or its folder was moved or removed while the gateway runs; "
                    + writer.track { AuditFile.remedy(of: options.path, keyPath: options.keyPath) }
            )
        case (.replaced, let onMissing):
            let beginning =
                onMissing == .recreate
                ? "move it away: a new log is begun at once"
                : "move it away, set audit.on_missing: recreate and restart the gateway"
            throw AuditError(
                "the audit log \(options.path) is not the file that this gateway opened; move that one back. If it is lost "
                    + "and what is there now holds every row, restart the gateway; otherwise \(beginning)"
            )
        }
    }

    private func beginAnew() throws {
        let (known, old) = state.withLock { ($0.head, $0.file) }
        var file = old
        try writer.reopen { try file.makeCandidate() }
        state.withLock { $0.file = file }
        let opening = AuditOpening(options: options, chain: chain, rows: rows, now: clock.now().wall)
        let opened = try writer.write { try opening.beginAnew(after: known, in: $0) }
        file.acceptCandidate()
        state.withLock { state in
            state.file = file
            state.head = opened.head
            state.headIsExported = false
            state.loss = opened.loss
            state.chainName = opened.chainName
            state.shipping = ShippingProgress(known: opened.shippedTo)
        }
        observer?(opened.added)
        writer.track { exportHead() }
        if let loss = opened.loss { report(loss) }
    }

    func report(_ loss: AuditLoss) {
        logger.error(
            "the audit log was gone; a new one was begun",
            metadata: ["file": "\(options.path)", "lost_to": "\(loss.lostTo)"]
        )
    }

    // MARK: The end

    private static let closingLimit: Duration = .seconds(3)

    /// Writes what is pending and the usage counted so far, and closes the file. Later events are refused.
    package func close() async {
        let wasOpen = state.withLock { state in
            defer { state.isClosed = true }
            return !state.isClosed
        }
        guard wasOpen else { return }
        _ = try? await writer.perform(within: Self.closingLimit) {
            self.writeUsage()
            self.writeAllRequests()
            self.writeWithdrawals()
            self.exportHead()
        }
        headChanged.finish()
        for event in state.withLock({ $0.events.unrecorded }) { sayLost(event) }
        await writer.close(within: Self.closingLimit)
    }

    func sayLost(_ withdrawal: TokenEvent) {
        logger.error(
            "What an operator took away is not in the audit log",
            metadata: ["event": "\(withdrawal.name.rawValue)", "credential": "\(withdrawal.credential ?? "")"]
        )
    }
}
