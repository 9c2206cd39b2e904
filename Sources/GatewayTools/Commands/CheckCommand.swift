import ArgumentParser
import GatewayApp
import GatewayConfiguration
import GatewayHTTP
import GatewayProxy
import GatewayTokenClient
import GatewayTokens
import Logging

struct CheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Find every mistake in the configuration.",
        discussion: """
            Examples:
              authgateway check
              authgateway check new.yaml
              authgateway check --acquire
              authgateway check --no-secrets --json | jq -r '.diagnostics[].message'
              authgateway check new.yaml && cp new.yaml gateway.yaml

            Reads the file, what it includes and the secrets that it names; starts and
            creates nothing. Exit code 3 when there is a mistake, or when every user may
            write to one of these files.

            With --no-secrets it reads no secret and runs no program: for a machine that
            has none of them, such as a CI server. It then accepts a variable ${NAME}
            that is not set. It does not check the values of these.

            With --acquire it also fetches one token for each credential, to see whether
            the authorization server issues one. The token is not kept, used or recorded.
            Credentials that need a login, or whose renewal spends a token (duke_session,
            box_oauth), are not tried. Exit code 1 when one fails.
            """
    )

    @Flag(name: .customLong("no-secrets"), help: "Read no secret: check the rest of the configuration.")
    var skipsSecrets = false

    @Flag(name: .customLong("acquire"), help: "Fetch a token of each credential, and forget it.")
    var acquires = false

    @OptionGroup var config: ConfigArgument
    @OptionGroup var strictModes: StrictModesFlag
    @OptionGroup var json: JSONFlag

    func validate() throws {
        if acquires, skipsSecrets { throw ValidationError("--acquire needs the secrets; leave out --no-secrets.") }
        if acquires, json.isOn { throw ValidationError("--acquire has no JSON; leave out --json.") }
    }

    func run() async throws(CommandFailure) {
        let check = try ConfigurationCheck(config.path, readsSecrets: !skipsSecrets, strictModes: strictModes.isOn)
        if json.isOn {
            Console.write(try JSONText.pretty(check.report))
        } else {
            Console.writeError(check.notes)
            if check.isValid { Console.write(check.summary) }
        }
        guard check.isValid else { throw CommandFailure(.configuration) }
        if acquires { try await acquire() }
    }

    /// Fetches one token of each credential whose grant does not rotate, and keeps none.
    private func acquire() async throws(CommandFailure) {
        let plan = try ConfigurationFile(path: config.path, consequence: ConfigurationCheck.consequence).plan
        let endpoint = OutgoingHTTP(version: GatewayVersion.current)
        let logger = LogOutput.standardError.logger("authgateway.tokens", level: .critical)
        let outcomes = await AcquireTrial(plan, endpoint: endpoint, logger: logger).run()
        var (text, failed): (String, [String]) = ("", [])
        for (index, result) in outcomes.sorted(by: { $0.key < $1.key }) {
            let name = LogText.clean(plan.credentials[index].name)
            text += name
            switch result {
            case .obtained: text += ": a token was obtained.\n"
            case .notTried(let reason): text += ": not tried: \(reason).\n"
            case .failed(let problem):
                text += ": failed: \(LogText.clean(problem.detail))\n"
                failed.append(name)
            }
        }
        // Why a token was refused has already been printed.
        let refused = outcomes.compactMap { if case .failed = $0.value { $0.key } else { nil } }
        let usable = Set(plan.credentials.indices.filter { plan.credentials[$0].canBeUsedElsewhere }).subtracting(
            refused
        )
        for answer in try await WhoAmITrial(plan, credentials: usable).run(plan) {
            text += "\(answer.text).\n"
            if !answer.answer.isGood { failed.append(LogText.clean(answer.route)) }
        }
        Console.write(text)
        try CommandFailure.require(noneOf: failed)
    }
}

/// All mistakes of a configuration. Nothing is started and nothing is created.
struct ConfigurationCheck {
    fileprivate static let consequence = "nothing was started"

    private let path: String
    private let readsSecrets: Bool
    private let outcome: ConfigOutcome
    /// What is wrong with certificates and keys, which the configuration only names.
    private let tlsProblem: String?

    /// - Parameters:
    ///   - path: As diagnostics shall print it.
    ///   - readsSecrets: false for a machine that has neither the secrets nor the variables.
    ///   - strictModes: Files that their group may write to are refused.
    init(_ path: String, readsSecrets: Bool, strictModes: Bool = false) {
        self.path = path
        self.readsSecrets = readsSecrets
        if readsSecrets {
            let files = RecordingConfigFiles()
            // A program with a `ttl` is asked once, as `run` does it.
            let secrets = RecordingSecretSource(SystemSecretSource(), in: files, remembering: [:])
            outcome = ConfigLoader.running(files, secrets, strictModes: strictModes).plan(at: path, secrets: secrets)
            tlsProblem = outcome.plan?.tlsProblem
        } else {
            let loader = ConfigLoader.unread(SystemConfigFiles(), strictModes: strictModes)
            outcome = loader.plan(at: path, secrets: UnreadSecrets())
            tlsProblem = nil
        }
    }

    var isValid: Bool { outcome.isValid && tlsProblem == nil }

    /// For programs.
    fileprivate var report: DiagnosticReport {
        var report = outcome.report
        if let tlsProblem { report.add(tlsProblem, in: path) }
        return report
    }

    /// Warnings and problems, as people read them.
    var notes: String {
        let problem = tlsProblem.map { "\(path): error: \($0)\n\(Self.consequence).\n" } ?? ""
        return outcome.report(consequence: Self.consequence) + problem
    }

    fileprivate var summary: String {
        let warnings = outcome.diagnostics.count { $0.severity == .warning }
        let verdict = warnings == 0 ? "no problem" : warnings.counted("warning")
        guard readsSecrets, let plan = outcome.plan else { return "\(path): \(verdict); no secret was read.\n" }
        let routes = plan.routes.count.counted("route")
        return "\(path): \(routes), \(plan.credentials.count.counted("credential")), \(verdict).\n"
    }
}

extension Plan {
    /// What is wrong with certificates and keys, which the configuration only names.
    var tlsProblem: String? {
        do throws(ListenerError) {
            try ProxyServer.readTLS(of: listeners + authz, admin: admin, routes: routes, limits: limits)
            return nil
        } catch {
            return "\(error)"
        }
    }
}
