import GatewayConfiguration
import GatewayCore
import GatewayProxy

/// What `doctor` does: looks at everything that a gateway needs, and changes nothing.
///
/// It collects facts; the rules in `GatewayCore` say what is wrong with it and what to do.
package struct DoctorOperation: Sendable {
    /// For each thing that may not answer.
    private static let limit: Duration = .seconds(5)
    /// For all services together.
    private static let limitOfServices: Duration = .seconds(30)

    private let path: String
    private let asJSON: Bool
    private let isOffline: Bool

    /// - Parameters:
    ///   - configuration: The path of the file, as findings shall print it.
    ///   - isOffline: Nothing is sent to another machine.
    package init(configuration: String, asJSON: Bool, isOffline: Bool) {
        path = configuration
        self.asJSON = asJSON
        self.isOffline = isOffline
    }

    /// - Returns: What is for standard output, and whether there is no error.
    package func run() async throws(CommandFailure) -> (output: String, isHealthy: Bool) {
        let report = DoctorReport(await findings())
        let output = asJSON ? try JSONText.pretty(report) : DoctorText(report: report, style: .current).text()
        return (output, report.isHealthy)
    }

    private func findings() async -> [DoctorFinding] {
        let (plan, findings) = readConfiguration()
        guard let plan else { return findings }
        let running = await RunningGatewayProbe(plan: plan).ask(within: Self.limit)
        let storage = StorageProbe(plan: plan)
        async let local = self.local(plan, running)
        async let audit = bounded(.audit, plan.audit.path) { await storage.auditFindings() }
        async let endpoints = self.endpoints(of: plan)
        let store = await Deadline.value(within: Self.limit) { [isOffline] in await storage.store(isOffline: isOffline)
        }
        let credentials = CredentialProbe(
            plan: plan,
            running: running,
            reader: store?.reader,
            isOffline: isOffline
        )
        async let tokens = credentials.findings()
        async let services = isOffline ? [] : self.services(of: plan)
        let kept = store?.findings ?? [overdue(.store, storage.storeName)]
        return await findings + local + kept + audit + endpoints + tokens + services
    }

    // MARK: Configuration

    private func readConfiguration() -> (Plan?, [DoctorFinding]) {
        let files = RecordingConfigFiles()
        let secrets = RecordingSecretSource(SystemSecretSource(), in: files, remembering: [:])
        let outcome = ConfigLoader.running(files, secrets).plan(at: path, secrets: secrets)
        let findings = ConfigurationRule.findings(
            of: outcome.report,
            problem: outcome.plan.flatMap(Self.tlsProblem),
            file: path,
            counts: outcome.plan.map { plan in
                "\(plan.routes.count.counted("route")), \(plan.credentials.count.counted("credential"))"
            }
        )
        return (outcome.plan, findings)
    }

    private static func tlsProblem(_ plan: Plan) -> String? {
        do throws(ListenerError) {
            try ProxyServer.readTLS(of: plan)
            return nil
        } catch {
            return "\(error)"
        }
    }

    // MARK: This machine

    private func local(_ plan: Plan, _ running: RunningGatewayProbe.Answer) async -> [DoctorFinding] {
        let listeners = ListenerProbe(running: running)
        let now = SystemClock().now().wall
        return StorageProbe(plan: plan).fileFindings()
            + GatewayRule.findings(of: running.observation, stateDirectory: plan.stateDirectory)
            + (plan.listeners + plan.authz).map(listeners.finding) + [listeners.finding(of: plan.admin)]
            + ExpirationRule.findings(of: PlanExpirations(plan).expirations(at: now)) + authority(of: plan, at: now)
    }

    private func authority(of plan: Plan, at now: UnixTime) -> [DoctorFinding] {
        let trust = try? TrustProbe(stateDirectory: plan.stateDirectory).look()
        let isIntercepting = !plan.interceptedHosts.isEmpty
        return LocalAuthorityRule.finding(of: trust, isIntercepting: isIntercepting, at: now).map { [$0] } ?? []
    }

    private func endpoints(of plan: Plan) async -> [DoctorFinding] {
        let probe = EndpointProbe(plan: plan)
        return isOffline ? probe.offlineFindings() : await probe.findings(within: Self.limit)
    }

    /// Asks services whose credential a route sends, where that spends nothing.
    private func services(of plan: Plan) async -> [DoctorFinding] {
        let usable = Set(plan.credentials.indices.filter { plan.credentials[$0].canBeUsedElsewhere })
        let trial = WhoAmITrial(plan, credentials: usable)
        let outcome = await Deadline.value(within: Self.limitOfServices) {
            () async -> Result<[WhoAmITrial.Answer], CommandFailure> in
            do throws(CommandFailure) { return .success(try await trial.run(plan)) } catch { return .failure(error) }
        }
        let answers: [WhoAmITrial.Answer]
        switch outcome {
        case .success(let given): answers = given
        case .failure(let error):
            return [WhoAmIRule.unknown("they could not be asked: \(LogText.clean("\(error)"))", file: path)]
        case nil:
            let limit = ConfigUnits.text(Self.limitOfServices)
            return [WhoAmIRule.unknown("they did not answer within \(limit)", file: path)]
        }
        return answers.map { answer in
            let route = plan.routes.first { $0.name == answer.route }
            let credential = route?.credential.map { plan.credentials[$0].name } ?? ""
            return WhoAmIRule.finding(
                of: answer.answer,
                to: answer.request,
                route: answer.route,
                credential: credential
            )
        }
    }

    // MARK: Deadlines

    private func bounded(
        _ group: DoctorFinding.Group,
        _ subject: String,
        _ work: @escaping @Sendable () async -> [DoctorFinding]
    ) async -> [DoctorFinding] {
        await Deadline.value(within: Self.limit, of: work) ?? [overdue(group, subject)]
    }

    private func overdue(_ group: DoctorFinding.Group, _ subject: String) -> DoctorFinding {
        let text = "did not answer within \(ConfigUnits.text(Self.limit))"
        return DoctorFinding(
            group,
            .error,
            subject,
            text,
            remedy: "See whether the disk works.",
            command: "dmesg | tail"
        )
    }
}
