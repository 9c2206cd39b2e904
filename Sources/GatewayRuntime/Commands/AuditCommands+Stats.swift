import GatewayAudit
import GatewayCore

extension AuditCommands {
    /// - Parameters:
    ///   - grouping: `client`, `route`, `credential` or `upstream`; nil sums up each credential, with its latencies.
    ///   - last: How long ago it begins, such as `1h`; nil for all of the log.
    package func stats(by grouping: String? = nil, last: String? = nil) async throws(CommandFailure) -> String {
        let question = try AuditSums(by: grouping, last: last)
        guard let grouping = question.grouping else {
            let stats = try await ask { reader throws(AuditError) in try await reader.stats(since: question.since) }
            return try question.text(of: stats, style)
        }
        // The log names no upstreams, and the same route had another one once: what it has now is what people know.
        let upstreams = grouping == .upstream ? try configured().plan.names.upstreams : [:]
        let usage = try await ask { reader throws(AuditError) in
            try await reader.usage(by: grouping, since: question.since, upstreams: upstreams)
        }
        return try question.text(of: usage, style)
    }

    private func ask<Answer>(
        _ question: (AuditReader) async throws(AuditError) -> Answer
    ) async throws(CommandFailure) -> Answer {
        do throws(AuditError) {
            return try await question(AuditReader(path: path))
        } catch {
            throw CommandFailure(.failed, error.reason)
        }
    }
}
