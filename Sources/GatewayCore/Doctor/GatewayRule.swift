/// What is said of the gateway that runs with the configuration.
package enum GatewayRule {
    package enum Observation: Hashable, Sendable {
        case stopped
        /// A process holds the state directory and answers on the admin listener.
        ///
        /// - differences: Paths of the configuration that it serves otherwise; nil when it did not say.
        case running(Readiness, differences: [String]?)
        /// A process holds the state directory, and the admin listener does not answer.
        case silent(String)
    }

    package static func findings(of observation: Observation, stateDirectory: String) -> [DoctorFinding] {
        switch observation {
        case .stopped: return [DoctorFinding(.gateway, .ok, stateDirectory, "no gateway uses this state directory")]
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
        case .running(let readiness, let differences):
            return states(readiness, stateDirectory) + (differences.map { [served($0, stateDirectory)] } ?? [])
        }
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
