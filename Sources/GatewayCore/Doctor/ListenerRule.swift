/// What is said of an address that the gateway listens on.
package enum ListenerRule {
    package enum Observation: Hashable, Sendable {
        case free
        /// Of the running gateway of this configuration.
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
