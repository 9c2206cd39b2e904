import GatewayAudit
import GatewayEvents
import GatewayFiles
import GatewayHTTP
import GatewayLocalAuthority
import GatewayProxy
import GatewayTokens
import Logging
import ServiceLifecycle
import Synchronization

/// Reads the configuration again when it is told to or the files have changed, and puts the new plan in the old one's
/// place: whole, or not at all.
package final class Reloader: Service {
    /// What a reload changes.
    struct Parts: Sendable {
        let live: LivePlan
        let proxy: ProxyServer
        /// nil where the admin listener has no TLS.
        var adminTLS: OperatorTLS?
        let keepers: KeeperSupervisor
        let locks: CredentialLocks
        let captures: CaptureStore
        let audit: any AuditLog
        let authority: LocalAuthority
        let secretRejection: SecretRejectionFlag
        let makeSources: @Sendable (Plan, CredentialSources) -> CredentialSources
        let makeConfiguration: @Sendable (Plan, CredentialSources) -> ProxyConfiguration
        let clock: any GatewayClock
        let logger: Logger
    }

    private struct Pending {
        private(set) var cause: ReloadReport.Cause?
        var waiters: [CheckedContinuation<ReloadReport, Never>] = []
        var isClosed = false

        /// A new secret has the lowest priority: a requested reload reads everything again. A change of files has the next one,
        /// because its reload is left out where the files were read since.
        mutating func want(_ new: ReloadReport.Cause) {
            let isHigher = cause == nil || cause == .secret || new == .operator || (cause == .files && new == .signal)
            if isHigher { cause = new }
        }

        mutating func take() -> (ReloadReport.Cause?, [CheckedContinuation<ReloadReport, Never>]) {
            defer { (cause, waiters) = (nil, []) }
            return (cause, waiters)
        }
    }

    private static let pollInterval = Duration.seconds(1)
    /// A change is acted upon when the files have been still for so long: editors write in several steps.
    private static let settleTime = Duration.milliseconds(200)
    private static let maximumWaiting = 64
    /// Routes of which a reload needs so much memory that it matters.
    private static let many = 1000

    private let source: ConfigurationSource
    private let parts: Parts
    private let digestKey = ServedPlan.newKey()
    private let pending = Mutex(Pending())
    private let wakeUps = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    /// The files of the configuration, as they were when they were last read.
    private let files: Mutex<WatchedFiles>
    private let secrets: SecretWatch

    init(source: ConfigurationSource, parts: Parts) {
        self.source = source
        self.parts = parts
        files = Mutex(source.files)
        secrets = SecretWatch(
            answers: source.programs,
            rejection: parts.secretRejection,
            ask: { [source] in await source.ask($0) },
            clock: parts.clock,
            logger: parts.logger
        )
    }

    /// Several requests that come while a reload is under way are one.
    func request(_ cause: ReloadReport.Cause) {
        pending.withLock { $0.want(cause) }
        wakeUps.continuation.yield()
    }

    /// Reloads, and returns when it is done.
    func reload(_ cause: ReloadReport.Cause) async -> ReloadReport {
        await withCheckedContinuation { done in
            let refusal: ReloadReport? = pending.withLock { pending in
                if pending.isClosed { return .failed(cause, "the gateway is stopping") }
                guard pending.waiters.count < Self.maximumWaiting else {
                    return .failed(cause, "too many reloads are waiting")
                }
                pending.want(cause)
                pending.waiters.append(done)
                return nil
            }
            if let refusal { return done.resume(returning: refusal) }
            wakeUps.continuation.yield()
        }
    }

    /// What can leave the process of the plan that is served. Not kept: with many routes it takes much memory, and few ask for it.
    func servedPlan() -> ServedPlan {
        var served = ServedPlan(PlanDefinitions(parts.live.plan), key: digestKey)
        if !source.overlay.isEmpty { served.sandbox = source.overlay }
        return served
    }

    // MARK: Running

    /// By then the start has read its configuration and has most tokens.
    private static let startTime = Duration.seconds(10)

    func run() async throws {
        MemoryTrim.later(by: Self.startTime)
        await cancelWhenGracefulShutdown {
            await withDiscardingTaskGroup { tasks in
                tasks.addTask { await self.watch() }
                tasks.addTask { await self.secrets.run { await self.reload(.secret).outcome } }
                for await _ in self.wakeUps.stream { await self.takeTurn() }
                // Before the tasks are waited for: they may wait for a reload themselves.
                self.close()
            }
        }
    }

    private func close() {
        let (_, left) = pending.withLock { pending in
            pending.isClosed = true
            return pending.take()
        }
        for waiter in left { waiter.resume(returning: .failed(.operator, "the gateway is stopping")) }
    }

    private func takeTurn() async {
        let (cause, waiters) = pending.withLock { $0.take() }
        guard let cause else { return }
        // The reload before has read the change already, when it was asked for at the same time.
        if cause == .files, waiters.isEmpty, await !haveChanged() { return }
        let report = await perform(cause)
        for waiter in waiters { waiter.resume(returning: report) }
    }

    private func haveChanged() async -> Bool {
        let last = files.withLock { $0 }
        return await source.look(at: last) != last
    }

    private func watch() async {
        while (try? await parts.clock.sleep(for: Self.pollInterval)) != nil {
            let last = files.withLock { $0 }
            var now = await source.look(at: last)
            guard now != last else { continue }
            while !Task.isCancelled {
                try? await parts.clock.sleep(for: Self.settleTime)
                let later = await source.look(at: now)
                if later == now { break }
                now = later
            }
            request(.files)
        }
    }

    // MARK: One reload

    private func perform(_ cause: ReloadReport.Cause) async -> ReloadReport {
        let reading = await source.read(remembering: cause == .secret ? secrets.answers : [:])
        files.withLock { $0 = reading.files }
        let report: ReloadReport
        switch reading.outcome {
        case .failure(let failure):
            report = ReloadReport(
                cause: cause,
                outcome: failure.status == .configuration ? .refused : .failed,
                problems: failure.description
            )
        case .success(let file):
            // The text and the nodes are gone, but the allocator keeps their memory for the thread that read them.
            if file.plan.routes.count >= Self.many { MemoryTrim.now() }
            report = await apply(file, cause)
        }
        if report.outcome == .loaded, case .success(let file) = reading.outcome {
            secrets.replace(with: file.programs)
        } else {
            // Until a reload succeeds: a secret that is rotated in its file is read again when somebody asks for it.
            files.withLock { $0 = reading.all }
        }
        return await announce(report)
    }

    /// After what the reload takes away is gone, which must not wait for a certificate.
    private func coverHosts(of plan: Plan) async -> String {
        switch await parts.authority.coverInTime(plan) {
        case .success(let hosts) where hosts.isEmpty: return ""
        case .success(let hosts):
            return "New certificates of the local CA have to be trusted for \(hosts.joined(separator: ", ")): "
                + "authgateway ca show\n"
        case .failure(let error): return "Hosts that are new cannot be intercepted: \(error.description)\n"
        }
    }

    private func apply(_ file: ConfigurationFile, _ cause: ReloadReport.Cause) async -> ReloadReport {
        let (plan, live) = (file.plan, parts.live.state)
        let changes = PlanChange.between(live.plan, plan, mark: ServedPlan.mark(key: digestKey))
        var report = ReloadReport(cause: cause, outcome: .loaded, changes: changes, warnings: file.warnings)
        let fixed = changes.filter { $0.needsRestart }.map { change in
            ([change.path] + change.notes).joined(separator: ": ")
        }
        guard fixed.isEmpty else {
            let list = fixed.map { "  \($0)\n" }.joined()
            report.outcome = .refused
            report.problems =
                "This cannot change while the gateway runs; restart it, or undo the change:\n\(list)"
                + "The running configuration was kept.\n"
            return report
        }
        let sources = parts.makeSources(plan, live.sources)
        let prepared: PreparedReload
        let adminTLS: OperatorTLS.Prepared?
        do {
            adminTLS = try plan.admin.tls.map { try OperatorTLS.prepare($0) }
            let configuration = parts.makeConfiguration(plan, sources)
            prepared = try await parts.proxy.prepare(configuration, listeners: plan.listeners + plan.authz)
        } catch {
            report.outcome = .failed
            report.problems = "\(error)\n"
            return report
        }
        // Not refused where that fails: a reload may take rights away.
        if let error = await parts.audit.recordSoon(loadedEvent(report, plan)) {
            report.warnings +=
                "The reload is not recorded yet: \(error.reason). It will be as soon as the audit log can be written.\n"
        }
        // Keepers are told of changes of the store from here on. One that has read its record before would miss some.
        parts.live.replace(with: plan, sources: sources, at: parts.clock.now().wall)
        for keeper in sources.keepers(notIn: live.sources) { parts.keepers.start(keeper) }
        if let adminTLS { parts.adminTLS?.use(adminTLS) }
        let renamed = sources.holdLockedSecrets(in: parts.locks, of: live.sources)
        if !renamed.isEmpty {
            let names = renamed.joined(separator: ", ")
            report.warnings += "Locked, because the secret is that of a locked credential: \(names).\n"
        }
        // What operators have locked since the keepers were made.
        let locked = sources.follow(parts.locks, as: plan.credentials, newSince: live.sources)
        var late = await parts.proxy.apply(prepared)
        for worker in await parts.proxy.withdraw(locked) where !late.contains(worker) { late.append(worker) }
        if let warning = ProxyServer.warning(of: late, that: "it serves the new configuration") {
            report.warnings += "\(warning)\n"
        }
        await parts.captures.prune(keeping: sources.captured(in: plan).keys)
        report.warnings += await coverHosts(of: plan)
        if !renamed.isEmpty { await parts.locks.storeAgain() }
        for keeper in sources.keepers(keptFrom: live.sources) { keeper.reloaded() }
        for keeper in live.sources.keepers(notIn: sources) { keeper.retire() }
        for keepers in live.sources.perSubjectKeepers(notIn: sources) { keepers.retire() }
        // Two configurations were in memory, and their text.
        MemoryTrim.later()
        return report
    }

    private func loadedEvent(_ report: ReloadReport, _ plan: Plan) -> TokenEvent {
        var detail = [
            "file": source.path, "cause": report.cause.rawValue, "routes": String(plan.routes.count),
            "credentials": String(plan.credentials.count),
        ]
        for kind in [PlanChange.Kind.added, .changed, .dropped] {
            detail[kind.rawValue] = String(report.changes.count { $0.kind == kind })
        }
        return TokenEvent(at: parts.clock.now().wall, name: .configLoaded, trigger: .reload, detail: detail)
    }

    /// The first error, and how many more there are; a warning may stand before it. Only the line of a problem names a place and
    /// `error`; what follows it is indented.
    static func firstProblem(in problems: String) -> String {
        let lines = problems.split(separator: "\n")
        let errors = lines.filter { !$0.hasPrefix(" ") && $0.contains(": error: ") }
        guard let first = errors.first ?? lines.first else { return "unknown" }
        return errors.count > 1 ? "\(first) (and \(errors.count - 1) more)" : String(first)
    }

    private func announce(_ report: ReloadReport) async -> ReloadReport {
        guard report.outcome != .loaded else {
            let effective = PlanChange.effective(report.changes)
            parts.logger.notice(
                "Configuration loaded",
                metadata: ["cause": "\(report.cause.rawValue)", "changes": "\(effective.count)"]
            )
            if !report.warnings.isEmpty {
                LogOutput.logToStandardError(report.warnings) { text in
                    parts.logger.warning("Configuration has warnings", metadata: text)
                }
            }
            return report
        }
        let time = parts.clock.now().wall.rfc3339
        let first = Self.firstProblem(in: report.problems)
        parts.live.refuse(because: "configuration refused at \(time), the previous one is still served: \(first)")
        LogOutput.logToStandardError(report.problems) { text in
            parts.logger.error(
                "Configuration refused; the running one was kept",
                metadata: text.merging(["cause": "\(report.cause.rawValue)", "problem": "\(first)"]) { $1 }
            )
        }
        var event = TokenEvent(at: parts.clock.now().wall, name: .configRefused, trigger: .reload, outcome: .failed)
        event.detail = ["file": source.path, "cause": report.cause.rawValue, "problem": LogText.clean(first)]
        do throws(AuditError) {
            try await parts.audit.record(event)
        } catch {
            parts.logger.error("Audit event not written", metadata: ["event": "config_refused"])
        }
        return report
    }
}

extension ReloadReport {
    fileprivate static func failed(_ cause: Cause, _ problem: String) -> ReloadReport {
        ReloadReport(cause: cause, outcome: .failed, problems: "\(problem)\n")
    }
}
