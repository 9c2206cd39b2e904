import ArgumentParser
import GatewayConfiguration
import GatewayCore

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Look at everything that the gateway needs, and say what to do.",
        discussion: """
            Examples:
              authgateway doctor
              authgateway doctor --offline
              authgateway doctor --json | jq '.findings[] | select(.level == "error")'

            Looks at the configuration, the modes of its files, the addresses to listen
            on, the token store, the newest events of the audit log, each upstream and
            authority (name, connection, certificate), the clock, and each credential.
            Says what is wrong and which command helps.

            Changes nothing, and does not disturb a running gateway. It connects to each
            upstream and sends no request. It asks each authority for its time (HEAD /
            without a credential). It fetches one token for each credential and forgets
            it. Where that would spend a refresh token, it asks the running gateway, or
            reads the token store.

            With --offline nothing is sent to another machine. Programs that print secrets of the
            configuration run all the same.

            Exit code 1 when there is an error.
            """
    )

    @Flag(help: "Send nothing to another machine.")
    var offline = false

    @OptionGroup var config: ConfigArgument
    @OptionGroup var json: JSONFlag

    /// For each thing that may not answer.
    private static let limit: Duration = .seconds(5)
    /// For all services together.
    private static let limitOfServices: Duration = .seconds(30)

    /// It collects facts; the rules in `GatewayCore` say what is wrong with it and what to do.
    func run() async throws(CommandFailure) {
        let report = DoctorReport(await findings())
        Console.write(try json.text(of: report, or: DoctorText(report: report, style: .current).text()))
        guard report.isHealthy else { throw CommandFailure(.failed) }
    }

    private func findings() async -> [DoctorFinding] {
        let (plan, findings) = readConfiguration()
        guard let plan else { return findings }
        let running = await RunningGatewayProbe(plan: plan).ask(within: Self.limit)
        let storage = StorageProbe(plan: plan)
        async let local = self.local(plan, running)
        async let audit = bounded(.audit, plan.audit.path) { await storage.auditFindings() }
        async let endpoints = self.endpoints(of: plan)
        let store = await Deadline.value(within: Self.limit) { [offline] in await storage.store(isOffline: offline)
        }
        let credentials = CredentialProbe(
            plan: plan,
            running: running,
            reader: store?.reader,
            isOffline: offline
        )
        async let tokens = credentials.findings()
        async let services = offline ? [] : self.services(of: plan)
        let kept = store?.findings ?? [overdue(.store, storage.storeName)]
        return await findings + local + kept + audit + endpoints + tokens + services
    }

    // MARK: Configuration

    private func readConfiguration() -> (Plan?, [DoctorFinding]) {
        let files = RecordingConfigFiles()
        let secrets = RecordingSecretSource(SystemSecretSource(), in: files, remembering: [:])
        let outcome = ConfigLoader.running(files, secrets).plan(at: config.path, secrets: secrets)
        let findings = ConfigurationRule.findings(
            of: outcome.report,
            problem: outcome.plan?.tlsProblem,
            file: config.path,
            counts: outcome.plan.map { plan in
                "\(plan.routes.count.counted("route")), \(plan.credentials.count.counted("credential"))"
            }
        )
        return (outcome.plan, findings)
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
        return offline ? probe.offlineFindings() : await probe.findings(within: Self.limit)
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
            return [WhoAmIRule.unknown("they could not be asked: \(LogText.clean("\(error)"))", file: config.path)]
        case nil:
            let limit = ConfigUnits.text(Self.limitOfServices)
            return [WhoAmIRule.unknown("they did not answer within \(limit)", file: config.path)]
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
