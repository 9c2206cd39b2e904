import ArgumentParser
import GatewayApp
import GatewayConfiguration
import GatewayEvents
import GatewayHTTP
import GatewayProxy
import GatewayTokens

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Look at everything that the gateway needs, and say what to do.",
        discussion: """
            Examples:
              authgateway doctor
              authgateway doctor --offline
              authgateway doctor --all
              authgateway doctor --json | jq '.findings[] | select(.level == "error")'

            Looks at the configuration, the modes of its files, the addresses to listen
            on, the token store, the newest events of the audit log, each upstream and
            authorization server (name, connection, certificate), the clock, and each
            credential. Says what is wrong and which command helps.

            Changes nothing, and does not disturb a running gateway. It connects to each
            upstream and sends no request. It asks each authorization server for its time
            (HEAD / without a credential). It fetches one token for each credential and
            forgets it. Where that would spend a refresh token, it asks the running
            gateway, or reads the token store.

            With more than 100 upstreams and authorization servers, or more than 100
            tokens to fetch, it checks as many as it can in the time. With --all it checks
            every one.

            With --offline nothing is sent to another machine. Programs that print secrets
            of the configuration run all the same.

            Exit code 1 when there is an error.
            """
    )

    @Flag(help: "Send nothing to another machine.")
    var offline = false

    @Flag(help: "Check every upstream, authorization server and credential, however many there are.")
    var all = false

    @OptionGroup var config: ConfigArgument
    @OptionGroup var json: JSONFlag

    /// How long each thing that may not answer is waited for.
    private static let limit: Duration = .seconds(5)
    /// How long all services together are waited for.
    private static let limitOfServices: Duration = .seconds(30)

    /// Collects facts. The rules in `GatewayApp/Doctor` say what is wrong with them, and what to do.
    func run() async throws(CommandFailure) {
        // Refuses another user's.
        _ = try config.path
        let label = "Reading the configuration"
        let findings = await ProgressLine.during(label, unless: json.isOn) { await self.findings($0) }
        let report = DoctorReport(findings)
        Console.write(try json.text(of: report, or: DoctorText(report: report, style: .current).text()))
        guard report.isHealthy else { throw CommandFailure(.failed) }
    }

    private func findings(_ progress: ProgressLine?) async -> [DoctorFinding] {
        var (read, findings) = readConfiguration()
        guard let first = read else { return await besideTheGateway(findings, progress) ?? findings }
        var running = await RunningGatewayProbe(plan: first).ask(within: Self.limit)
        if let sandbox = running.sandbox {
            (read, findings) = readConfiguration(sandbox)
            guard let read else { return findings }
            running = await RunningGatewayProbe(plan: read).ask(within: Self.limit)
        }
        return await findings + self.findings(about: read ?? first, running, progress)
    }

    /// Under a service manager, only the gateway has the variables of its configuration. What does not need them is checked without.
    ///
    /// - Parameter strict: What is wrong with the configuration for want of variables.
    /// - Returns: nil where no gateway runs with the configuration, or something else is wrong with it.
    private func besideTheGateway(
        _ strict: [DoctorFinding],
        _ progress: ProgressLine?
    ) async -> [DoctorFinding]? {
        let unset = UnsetVariables()
        let loader = ConfigLoader.unread(SystemConfigFiles(), noting: unset)
        let outcome = loader.plan(at: config.name, secrets: SecretsOfOthers())
        guard outcome.isValid, let plan = outcome.plan else { return nil }
        var running = await RunningGatewayProbe(plan: plan).ask(within: Self.limit)
        guard case .running(let readiness, _, _) = running.observation else { return nil }
        if let sandbox = running.sandbox {
            let (read, findings) = readConfiguration(sandbox)
            guard let read else { return findings }
            running = await RunningGatewayProbe(plan: read).ask(within: Self.limit)
            return await findings + self.findings(about: read, running, progress)
        }
        // The plan is not that of the file.
        running.observation = .running(readiness, differences: nil)
        return await ConfigurationRule.findings(strict, withoutVariablesOf: config.name)
            + findings(about: plan, running, progress, unset: unset)
    }

    /// - Parameter unset: What the plan has placeholders for, with which nothing can be tried; nil where it has none.
    private func findings(
        about plan: Plan,
        _ running: RunningGatewayProbe.Answer,
        _ progress: ProgressLine?,
        unset: UnsetVariables? = nil
    ) async -> [DoctorFinding] {
        progress?.step("Checking files, stores, servers and credentials", total: 6, unit: "parts")
        let lacksSecrets = unset != nil
        let offline = offline || lacksSecrets
        let storage = StorageProbe(plan: plan)
        let isKeyUnknown = lacksSecrets && storage.needsSecrets
        return await withTaskGroup(of: (Part, [DoctorFinding]).self) { tasks in
            // They take the longest, so they begin first.
            tasks.addTask { (.endpoints, Self.done(await endpoints(of: plan, unset), progress)) }
            tasks.addTask { (.local, Self.done(await local(plan, running), progress)) }
            tasks.addTask {
                let findings =
                    isKeyUnknown
                    ? [unknownKey(.audit, plan.audit.path)]
                    : await bounded(.audit, plan.audit.path) { await storage.auditFindings() }
                return (.audit, Self.done(findings, progress))
            }
            let store = await Deadline.value(within: Self.limit) {
                () -> (findings: [DoctorFinding], reader: StoredTokenReader?) in
                if isKeyUnknown { return ([unknownKey(.store, storage.storeName)], nil) }
                return await storage.store(isOffline: offline)
            }
            progress?.add(1)
            let credentials = CredentialProbe(
                plan: plan,
                running: running,
                reader: store?.reader,
                isOffline: offline,
                triesAll: all
            )
            tasks.addTask { (.tokens, Self.done(await credentials.findings(), progress)) }
            tasks.addTask { (.services, Self.done(offline ? [] : await services(of: plan), progress)) }
            var found = [Part.store: store?.findings ?? [overdue(.store, storage.storeName)]]
            for await (part, findings) in tasks { found[part] = findings }
            return Part.allCases.flatMap { found[$0] ?? [] }
        }
    }

    /// What is looked at side by side, in the order in which it is told.
    private enum Part: CaseIterable {
        case local, store, audit, endpoints, tokens, services
    }

    /// Counts a part of the work that is done.
    private static func done(_ findings: [DoctorFinding], _ progress: ProgressLine?) -> [DoctorFinding] {
        progress?.add(1)
        return findings
    }

    // MARK: Configuration

    /// - Parameter overlay: Variables that count before those of the process.
    private func readConfiguration(_ overlay: [String: String] = [:]) -> (Plan?, [DoctorFinding]) {
        let files = RecordingConfigFiles()
        let secrets = RecordingSecretSource(SystemSecretSource(overlay: overlay), in: files, remembering: [:])
        let outcome = ConfigLoader.running(files, secrets).plan(at: config.name, secrets: secrets)
        let findings = ConfigurationRule.findings(
            of: outcome.report,
            problem: outcome.plan?.tlsProblem,
            file: config.name,
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

    private func endpoints(of plan: Plan, _ unset: UnsetVariables?) async -> [DoctorFinding] {
        let probe = EndpointProbe(plan: plan, unset: unset)
        return offline ? probe.offlineFindings() : await probe.findings(within: Self.limit, all: all)
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
            return [WhoAmIRule.unknown("they could not be asked: \(LogText.clean("\(error)"))", file: config.name)]
        case nil:
            let limit = ConfigUnits.text(Self.limitOfServices)
            return [WhoAmIRule.unknown("they did not answer within \(limit)", file: config.name)]
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

    private func unknownKey(_ group: DoctorFinding.Group, _ subject: String) -> DoctorFinding {
        DoctorFinding(group, .skipped, subject, "only the running gateway has the secrets that open it")
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

/// What this process can read, and a placeholder for each variable or credential that only the gateway was given.
private struct SecretsOfOthers: SecretsOfThisMachine {
    let system = SystemSecretSource()
    private let placeholders = UnreadSecrets()

    var areUnread: Bool { true }

    func environment(_ name: String) -> String? { system.environment(name) ?? placeholders.environment(name) }

    func systemdCredential(_ name: String) throws(UnusableInput) -> Secret {
        let isService = system.environment("CREDENTIALS_DIRECTORY") != nil
        return isService ? try system.systemdCredential(name) : try placeholders.systemdCredential(name)
    }
}

/// A ``DoctorReport`` as people read it: a heading for each group, a line for each finding, and below it what to do.
struct DoctorText {
    private static let indent = "  "

    let report: DoctorReport
    let style: TextStyle

    func text() -> String {
        var text = ""
        var isGathered = false
        for group in DoctorFinding.Group.allCases {
            let excerpt = report.condensed(group)
            guard !excerpt.findings.isEmpty else { continue }
            text += "\(group.rawValue)\n" + excerpt.findings.map(lines).joined() + rest(excerpt.omitted) + "\n"
            isGathered = isGathered || excerpt.isGathered
        }
        if isGathered {
            text += "One line stands for many, with the advice for the first. To see each:\n"
            text += "\(Self.indent)\(GatewayCommand.line("doctor", "--json"))\n\n"
        }
        return text + summary
    }

    private func rest(_ omitted: [DoctorFinding.Level: Int]) -> String {
        DoctorFinding.Level.allCases.compactMap { level -> String? in
            guard let count = omitted[level] else { return nil }
            let noun = level == .warning || level == .error ? level.rawValue : "\(level.rawValue) line"
            let command = GatewayCommand.line("doctor", "--json")
            return """
                \(Self.indent)… and \(count) more \(noun)\(count == 1 ? "" : "s"). To see all:
                \(Self.indent)\(Self.indent)\(command)

                """
        }.joined()
    }

    // MARK: One finding

    private func lines(_ finding: DoctorFinding) -> String {
        let level = finding.level.rawValue
        let column = Self.indent.count + levelWidth + Self.indent.count
        let start =
            Self.indent + style.paint(level, color(finding.level))
            + String(repeating: " ", count: levelWidth - level.count) + Self.indent
        var text = start + wrapped("\(finding.subject): \(finding.text)", column)
        let margin = String(repeating: " ", count: column)
        if let remedy = finding.remedy { text += margin + wrapped(remedy, column) }
        // On a line of its own and whole, to be copied.
        if let command = finding.command { text += "\(margin)  \(LogText.clean(command))\n" }
        return text
    }

    private func wrapped(_ text: String, _ column: Int) -> String {
        let room = style.width.map { max(20, $0 - column) } ?? .max
        let margin = "\n" + String(repeating: " ", count: column)
        return TableLayout.wrap(LogText.clean(text), to: room).joined(separator: margin) + "\n"
    }

    private var levelWidth: Int { DoctorFinding.Level.allCases.map(\.rawValue.count).max() ?? 0 }

    private func color(_ level: DoctorFinding.Level) -> TextStyle.Color? {
        switch level {
        case .ok: .green
        case .skipped: nil
        case .warning: .yellow
        case .error: .red
        }
    }

    // MARK: The end

    private var summary: String {
        let (errors, warnings) = (report.count(.error), report.count(.warning))
        guard errors + warnings > 0 else { return style.paint("no problem", .green) + "\n" }
        let text = "\(errors.counted("error")), \(warnings.counted("warning"))"
        return style.paint(text, errors > 0 ? .red : .yellow) + "\n"
    }
}
