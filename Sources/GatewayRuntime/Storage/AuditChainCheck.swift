import GatewayAudit
import GatewayCore
import Logging
import Synchronization

/// Recomputes the whole chain of the audit log while the gateway runs: soon after the start, and once a day.
///
/// A look at the newest rows cannot show that an older one was edited.
final class AuditChainCheck: Sendable {
    /// A gateway that runs for a moment only does without.
    static let delay: Duration = .seconds(30)
    static let interval: Duration = .seconds(86_400)
    /// A disk that does not answer must not delay the stop.
    static let limit: Duration = .seconds(600)

    struct Result: Hashable, Sendable {
        let at: UnixTime
        /// nil for an intact chain.
        let breach: AuditVerification.Breach?
    }

    private let path: String
    private let keys: AuditKeys
    private let clock: any GatewayClock
    private let logger: Logger
    private let latest = Mutex<Result?>(nil)

    init(path: String, keys: AuditKeys, clock: any GatewayClock, logger: Logger) {
        (self.path, self.keys, self.clock, self.logger) = (path, keys, clock, logger)
    }

    /// nil before the first one.
    var result: Result? { latest.withLock { $0 } }

    func run() async {
        var pause = Self.delay
        while (try? await clock.sleep(for: pause)) != nil {
            await verify()
            pause = Self.interval
        }
    }

    func verify() async {
        let (path, keys) = (path, keys)
        let found = await Deadline.value(within: Self.limit) { () async -> AuditVerification? in
            // What cannot be read is reported by what writes it.
            try? await AuditReader(path: path).verify(keys: keys)
        }
        guard let verification = found ?? nil else { return }
        let result = Result(at: clock.now().wall, breach: verification.breach)
        let before = latest.withLock { latest in
            defer { latest = result }
            return latest?.breach
        }
        guard let breach = result.breach, breach != before else { return }
        logger.warning(
            "The audit log is broken",
            metadata: [
                "fault": "\(breach.fault.rawValue)", "row": "\(breach.row.map(String.init) ?? "-")",
                "explanation": "\(breach.explanation)", "command": "authgateway audit verify",
            ]
        )
    }
}
