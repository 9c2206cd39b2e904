package import GatewayConfiguration
import GatewayHTTP
package import GatewayProxy

/// Findings about the gateway that runs with the configuration.
package enum GatewayRule {
    package enum Observation: Hashable, Sendable {
        case stopped
        /// A process holds the state directory and answers on the admin listener.
        ///
        /// - differences: Paths of the configuration that it serves otherwise; nil when it did not say.
        /// - hasSandbox: Whether it runs with --sandbox, whose variables the configuration was then read with.
        case running(Readiness, differences: [String]?, hasSandbox: Bool = false)
        /// A process holds the state directory, and the admin listener does not answer.
        case silent(String)
        /// This user may not look into the state directory, and no gateway answers on the admin listener.
        case hidden
    }

    package static func findings(of observation: Observation, stateDirectory: String) -> [DoctorFinding] {
        switch observation {
        case .stopped: return [DoctorFinding(.gateway, .ok, stateDirectory, "no gateway uses this state directory")]
        case .hidden:
            let text = "this user may not read the state directory; run doctor as its owner"
            return [DoctorFinding(.gateway, .skipped, stateDirectory, text)]
        case .silent(let reason):
            return [
                DoctorFinding(
                    .gateway,
                    .error,
                    stateDirectory,
                    "a process holds it, and \(reason)",
                    remedy:
                        "If it is a gateway with another configuration, run doctor with that file. This shows the process:",
                    command: "fuser -v \(ShellWord.quoted("\(stateDirectory)/gateway.lock"))"
                )
            ]
        case .running(let readiness, let differences, let hasSandbox):
            return states(readiness, stateDirectory) + (hasSandbox ? [sandbox(stateDirectory)] : [])
                + (differences.map { [served($0, stateDirectory)] } ?? [])
        }
    }

    private static func sandbox(_ name: String) -> DoctorFinding {
        let text = "the gateway runs with --sandbox; the configuration was checked with its variables"
        return DoctorFinding(.gateway, .ok, name, text)
    }

    /// One for each reason.
    private static func states(_ readiness: Readiness, _ name: String) -> [DoctorFinding] {
        let (level, state): (DoctorFinding.Level, String)
        switch readiness.state {
        case .ready: return [DoctorFinding(.gateway, .ok, name, "a gateway runs and is ready")]
        case .degraded: (level, state) = (.warning, "a gateway runs and is ready, but")
        case .notReady: (level, state) = (.error, "a gateway runs and is not ready:")
        }
        return readiness.reasons.map {
            DoctorFinding(.gateway, level, name, "\(state) \($0)", command: "authgateway status")
        }
    }

    private static func served(_ differences: [String], _ name: String) -> DoctorFinding {
        guard !differences.isEmpty else {
            return DoctorFinding(.gateway, .ok, name, "it serves the configuration as it is in the file")
        }
        let shown = differences.prefix(5).joined(separator: ", ") + (differences.count > 5 ? ", …" : "")
        return DoctorFinding(
            .gateway,
            .warning,
            name,
            "it serves another configuration than the file: \(shown)",
            remedy: "See what differs, and load it with authgateway reload.",
            command: "authgateway plan"
        )
    }
}

/// Findings about the configuration itself.
package enum ConfigurationRule {
    /// - Parameters:
    ///   - problem: What is wrong with a certificate or key that the configuration only names.
    ///   - counts: For example `3 routes, 2 credentials`; nil when it could not be read.
    package static func findings(
        of report: DiagnosticReport,
        problem: String?,
        file: String,
        counts: String?
    ) -> [DoctorFinding] {
        var findings = report.diagnostics.map { finding($0, of: file) }
        if let problem {
            findings.append(DoctorFinding(.configuration, .error, file, problem, command: check(file)))
        }
        if let counts, findings.allSatisfy({ $0.level != .error }) {
            findings.insert(DoctorFinding(.configuration, .ok, file, counts), at: 0)
        }
        if counts == nil {
            let text = "nothing else was checked, because the configuration has errors"
            findings.append(DoctorFinding(.configuration, .skipped, file, text))
        }
        return findings
    }

    /// Reports errors as skipped checks: they concern variables that only the running gateway has.
    package static func findings(_ strict: [DoctorFinding], withoutVariablesOf file: String) -> [DoctorFinding] {
        let found = strict.compactMap { finding -> DoctorFinding? in
            guard finding.group == .configuration else { return finding }
            switch finding.level {
            case .error:
                return DoctorFinding(
                    .configuration,
                    .skipped,
                    finding.subject,
                    "only the gateway has it: \(finding.text)"
                )
            case .skipped: return nil
            case .ok, .warning: return finding
            }
        }
        let text = "checked without the variables that only the running gateway has; nothing was tried with them"
        return [DoctorFinding(.configuration, .ok, file, text)] + found
    }

    /// One that comes with a command is about who may write to a file.
    private static func finding(_ entry: DiagnosticReport.Entry, of file: String) -> DoctorFinding {
        let level: DoctorFinding.Level = entry.severity == ConfigDiagnostic.Severity.error.rawValue ? .error : .warning
        if let command = entry.command {
            let text =
                entry.message.hasSuffix("; run: \(command)")
                ? String(entry.message.dropLast(command.count + 7)) : entry.message
            return DoctorFinding(.files, level, entry.file, text, remedy: "Remove that permission.", command: command)
        }
        let place = [entry.line, entry.column].compactMap { $0.map(String.init) }
        let subject = ([entry.file] + place).joined(separator: ":")
        let path = entry.path.isEmpty ? "" : "\(entry.path): "
        return DoctorFinding(.configuration, level, subject, path + entry.message, command: check(file))
    }

    private static func check(_ file: String) -> String { GatewayCommand.line("check", file) }
}

/// Findings about an address that the gateway listens on.
package enum ListenerRule {
    package enum Observation: Hashable, Sendable {
        case free
        /// The running gateway of this configuration listens there.
        case own
        case taken
        /// A port below 1024, or a folder that is not this user's.
        case forbidden
        /// No interface of this machine has the address.
        case foreignAddress
        /// What the system said.
        case unusable(String)
    }

    /// - Parameter key: `listeners.proxy` or `listeners.admin`.
    package static func finding(
        of address: ListenerPlan.Address,
        _ key: String,
        _ observation: Observation,
        isGatewayRunning: Bool
    ) -> DoctorFinding {
        let name = name(of: address)
        func error(_ text: String, _ remedy: String, command: String? = nil) -> DoctorFinding {
            DoctorFinding(.ports, .error, name, text, remedy: remedy, command: command)
        }
        switch observation {
        case .free where isGatewayRunning:
            let text = "free; the running gateway does not listen there"
            let remedy = "Load the configuration into the running gateway; a new admin address needs a restart."
            return DoctorFinding(.ports, .warning, name, text, remedy: remedy, command: "authgateway reload")
        case .free: return DoctorFinding(.ports, .ok, name, "free")
        case .own: return DoctorFinding(.ports, .ok, name, "in use by the running gateway")
        case .taken:
            return error("another program listens there", "Stop it, or change \(key).", command: holder(of: address))
        case .forbidden:
            return error("this user may not listen there", "Run it as another user, or change \(key).")
        case .foreignAddress:
            return error(
                "no interface of this machine has this address",
                "Change \(key).",
                command: "ip -brief address"
            )
        case .unusable(let reason): return error("cannot be used: \(reason)", "Change \(key).")
        }
    }

    private static func name(of address: ListenerPlan.Address) -> String {
        switch address {
        case .tcp(let host, let port): Origin.hostAndPort(host, port)
        case .unix(let path, _): "unix:\(path)"
        }
    }

    private static func holder(of address: ListenerPlan.Address) -> String {
        switch address {
        case .tcp(_, let port): "ss -ltnp 'sport = :\(port)'"
        case .unix(let path, _): "ss -lxp src \(ShellWord.quoted(path))"
        }
    }
}
