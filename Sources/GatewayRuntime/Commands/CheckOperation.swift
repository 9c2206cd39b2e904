import GatewayConfiguration
import GatewayCore
import GatewayProxy

/// What `check` does: finds every mistake of a configuration, and starts and creates nothing.
package struct CheckOperation: Sendable {
    package struct Result: Sendable {
        /// For standard output.
        package let output: String
        /// For standard error: warnings and problems, as people read them.
        package let notes: String
        package let isValid: Bool
    }

    private static let consequence = "nothing was started"

    private let path: String
    private let asJSON: Bool
    private let readsSecrets: Bool
    private let strictModes: Bool

    /// - Parameters:
    ///   - configuration: The path of the file, as diagnostics shall print it.
    ///   - readsSecrets: false for a machine that has neither the secrets nor the variables.
    ///   - strictModes: Files that their group may write to are refused.
    package init(configuration: String, asJSON: Bool, readsSecrets: Bool, strictModes: Bool) {
        path = configuration
        self.asJSON = asJSON
        self.readsSecrets = readsSecrets
        self.strictModes = strictModes
    }

    package func run() throws(CommandFailure) -> Result {
        let outcome = readsSecrets ? read() : readWithoutSecrets()
        let problem = readsSecrets ? outcome.plan.flatMap(tlsProblem) : nil
        let isValid = outcome.isValid && problem == nil
        guard !asJSON else {
            var report = outcome.report
            if let problem { report.add(problem, in: path) }
            return Result(output: try JSONText.pretty(report), notes: "", isValid: isValid)
        }
        var notes = outcome.report(consequence: Self.consequence)
        if let problem { notes += "\(path): error: \(problem)\n\(Self.consequence).\n" }
        return Result(output: isValid ? summary(of: outcome) : "", notes: notes, isValid: isValid)
    }

    private func read() -> ConfigOutcome {
        let files = RecordingConfigFiles()
        // A program with a `ttl` is asked once, as `run` does it.
        let secrets = RecordingSecretSource(SystemSecretSource(), in: files, remembering: [:])
        return ConfigLoader.running(files, secrets, strictModes: strictModes).plan(at: path, secrets: secrets)
    }

    private func readWithoutSecrets() -> ConfigOutcome {
        ConfigLoader.unread(SystemConfigFiles(), strictModes: strictModes).plan(at: path, secrets: UnreadSecrets())
    }

    /// Certificates and keys, which the configuration only names.
    private func tlsProblem(_ plan: Plan) -> String? {
        do throws(ListenerError) {
            try ProxyServer.readTLS(of: plan)
            return nil
        } catch {
            return "\(error)"
        }
    }

    private func summary(of outcome: ConfigOutcome) -> String {
        let warnings = outcome.diagnostics.count { $0.severity == .warning }
        let verdict = warnings == 0 ? "no problem" : warnings.counted("warning")
        guard readsSecrets, let plan = outcome.plan else { return "\(path): \(verdict); no secret was read.\n" }
        let routes = plan.routes.count.counted("route")
        return "\(path): \(routes), \(plan.credentials.count.counted("credential")), \(verdict).\n"
    }
}
