/// When telemetry is sent to a collector that refuses it for now. The same batch is sent until it is taken or refused for good.
package struct ExportSchedule: Sendable {
    /// What a collector's answer means (OTLP specification, section "Failures").
    package enum Answer: Hashable, Sendable {
        case accepted
        /// The same batch may be taken later.
        case later(after: Duration?)
        case refused(status: Int)

        /// - Parameter retryAfter: Seconds, as the field says.
        package init(status: Int, retryAfter: String? = nil) {
            switch status {
            case 200..<300: self = .accepted
            case 429, 502, 503, 504: self = .later(after: retryAfter.flatMap { Int64($0) }.map { .seconds(max(0, $0)) })
            default: self = .refused(status: status)
            }
        }
    }

    private var failures = 0
    private var next: MonotonicTime?

    package init() {}

    package func isDue(at now: MonotonicTime) -> Bool { next.map { now >= $0 } ?? true }

    /// - Parameter jitter: 0...1, evenly distributed.
    /// - Returns: Whether the batch is to be kept and sent again.
    package mutating func note(_ answer: Answer, at now: MonotonicTime, jitter: Double) -> Bool {
        guard case .later(let wish) = answer else {
            self = ExportSchedule()
            return false
        }
        failures += 1
        next = now + BackOff.delay(afterFailures: failures, retryAfter: wish, jitter: jitter)
        return true
    }
}
