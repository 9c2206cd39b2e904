package import GatewayAudit
package import GatewayEvents
import GatewayFiles
import GatewayHTTP
package import GatewayTokens
import Synchronization

/// Where `audit.anchor` sends heads of the audit log, and reads them again. Every call ends within its time limit.
package final class AnchorSink: Sendable {
    /// One call on a file or a socket.
    private static let callLimit: Duration = .seconds(5)
    /// Some 100,000 lines. With those of the file before it twice as many are kept.
    private static let fileLimit = 16 << 20

    package let plan: AnchorPlan
    private let runner: any ProgramRunner
    /// A call on a disk that is gone may never end: no second thread waits beside it.
    private let isCalling = Mutex(false)

    package init(_ plan: AnchorPlan, runner: any ProgramRunner = SystemProgramRunner()) {
        self.plan = plan
        self.runner = runner
    }

    func send(_ head: AnchoredHead) async throws(AuditError) {
        let line = head.line
        switch plan {
        case .command(let program, _): _ = try await run(program, input: Secret(line + "\n"))
        case .syslog(let tag):
            let failure = try await call { SystemLog.note("audit head \(line)", tag: tag) }
            if let failure { throw AuditError(failure) }
        case .file(let path):
            try await onDisk { () throws(PrivateFile.Failure) in
                try AppendedFile.add(line, to: path, limit: Int64(Self.fileLimit))
            }
        }
    }

    /// What was sent, oldest first; nil where that cannot be read.
    ///
    /// - Parameter limit: How many bytes at the end of a file are read.
    package func heads(within limit: Int = 2 * fileLimit) async throws(AuditError) -> [AnchoredHead]? {
        switch plan {
        case .command(_, let read):
            guard let read else { return nil }
            return try Self.heads(in: try await run(read, input: nil))
        case .syslog: return nil
        case .file(let path):
            let end = try await end(of: path, limit)
            let older = end.count < limit ? try await self.end(of: AppendedFile.older(path), limit - end.count) : []
            return try Self.heads(in: older + end)
        }
    }

    /// An anchor that holds something else may have been overwritten: to say that nothing was sent would be wrong.
    private static func heads(in bytes: [UInt8]) throws(AuditError) -> [AnchoredHead] {
        let heads = AnchoredHead.all(in: bytes)
        guard !heads.isEmpty || bytes.allSatisfy({ $0 <= 0x20 && $0 > 0 }) else {
            throw AuditError("it holds no line with a head of a log")
        }
        return heads
    }

    private func end(of path: String, _ limit: Int) async throws(AuditError) -> [UInt8] {
        try await onDisk { () throws(PrivateFile.Failure) in try AppendedFile.end(of: path, limit: limit) }
    }

    private func onDisk<Value: Sendable>(
        _ body: @escaping @Sendable () throws(PrivateFile.Failure) -> Value
    ) async throws(AuditError) -> Value {
        switch try await call({ Result { () throws(PrivateFile.Failure) in try body() } }) {
        case .success(let value): return value
        case .failure(let failure): throw AuditError(failure.reason)
        }
    }

    private func run(_ program: TokenProgram, input: Secret?) async throws(AuditError) -> [UInt8] {
        switch await runner.run(program, input: input, deadline: program.timeout) {
        case .success(let output): return output
        case .failure(let failure): throw AuditError("\(program.command.first ?? "") \(failure.message)")
        }
    }

    private func call<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async throws(AuditError) -> Value {
        let isFree = isCalling.withLock { isCalling in
            defer { isCalling = true }
            return !isCalling
        }
        guard isFree else { throw AuditError("the previous call has not returned; does the disk answer?") }
        let result = await OwnThread.run(within: Self.callLimit) { _ in
            defer { self.isCalling.withLock { $0 = false } }
            return body()
        }
        switch result {
        case .success(let value): return value
        case .failure(.overdue): throw AuditError("no answer within \(ConfigUnits.text(Self.callLimit))")
        case .failure(.notStarted(let code)):
            isCalling.withLock { $0 = false }
            throw AuditError("no thread: \(SystemError.text(code))")
        }
    }
}
