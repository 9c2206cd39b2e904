import GatewayHTTP

/// Which configuration file a command means.
package enum ConfigLocator {
    /// The file that counts without a word about it.
    package static let standard = "gateway.yaml"
    /// The environment variable that names another one.
    package static let variable = "AUTHGATEWAY_CONFIG"

    /// A gateway that said where its configuration is when it started.
    package struct RunningGateway: Hashable, Codable, Sendable {
        package let process: Int
        /// Absolute.
        package let configuration: String
        package let stateDirectory: String
        /// nil for a gateway of an earlier version.
        package let places: Places?

        /// What commands need of the configuration, for when it cannot be read.
        package struct Places: Hashable, Codable, Sendable {
            /// Where commands of this machine ask, as `--admin` takes it: `http://127.0.0.1:8081` or `unix:PATH`.
            package let admin: String
            /// The database of the audit log.
            package let audit: String
            /// The file with the installation's key; nil where the configuration has the key itself.
            package let key: String?

            package init(admin: String, audit: String, key: String?) {
                self.admin = admin
                self.audit = audit
                self.key = key
            }
        }

        package init(process: Int, configuration: String, stateDirectory: String, places: Places? = nil) {
            self.process = process
            self.configuration = configuration
            self.stateDirectory = stateDirectory
            self.places = places
        }
    }

    package enum Location: Hashable, Sendable {
        case file(String)
        /// No file was named and none is here, but one gateway runs on this machine.
        case running(RunningGateway)
        /// Several run: a person has to say which one.
        case ambiguous([RunningGateway])
    }

    /// In this order: the option, the variable, `gateway.yaml` of this folder, the only gateway that runs.
    ///
    /// - Parameters:
    ///   - hasStandard: Whether there is a `gateway.yaml` in this folder.
    ///   - running: The gateways of this machine; none for a command that needs no gateway.
    package static func locate(
        option: String?,
        variable: String?,
        hasStandard: () -> Bool,
        running: () -> [RunningGateway] = { [] }
    ) -> Location {
        if let option { return .file(option) }
        if let variable, !variable.isEmpty { return .file(variable) }
        guard !hasStandard() else { return .file(standard) }
        let gateways = running().sorted { ($0.configuration, $0.process) < ($1.configuration, $1.process) }
        switch gateways.count {
        case 0: return .file(standard)
        case 1: return .running(gateways[0])
        default: return .ambiguous(gateways)
        }
    }

    /// Why a configuration that was found, not named, is refused: it can run programs, and a terminal may be in anybody's folder.
    ///
    /// - Parameters:
    ///   - place: The file, its folder, or a file that it includes.
    ///   - owner: nil when nothing is there.
    ///   - invoker: Who became root with sudo; counts for root only.
    /// - Returns: nil when it belongs to the user or to root.
    package static func refusal(of place: String, owner: UInt32?, user: UInt32, invoker: UInt32?) -> String? {
        guard let owner, owner != 0, owner != user, user != 0 || owner != invoker else { return nil }
        return
            "\(place) belongs to another user (\(owner)), and a configuration can run programs; to use it anyway, "
            + "name it: --config \(standard)"
    }

    /// What to do where several run; `command` is what was typed.
    package static func advice(on gateways: [RunningGateway]) -> String {
        let lines = gateways.map { "  --config \(ShellWord.quoted($0.configuration))    (process \($0.process))\n" }
        return "\(gateways.count) gateways run here; say which one is meant:\n" + lines.joined()
    }

    /// What to do where several of other users run, whose configurations cannot be read.
    package static func advice(onShared gateways: [RunningGateway]) -> String {
        let lines = gateways.compactMap { gateway in
            gateway.places.map { place in
                "  --admin \(ShellWord.quoted(place.admin).singleLine(limit: 1024))    (process \(gateway.process))\n"
            }
        }
        return "\(gateways.count) gateways of other users run here; say which one is meant:\n" + lines.joined()
    }

    /// Where gateways leave word of themselves: the folder to write to comes first, then those that are only read.
    ///
    /// - Parameters:
    ///   - runtimeDirectory: `RUNTIME_DIRECTORY` of a systemd unit.
    ///   - sessionDirectory: `XDG_RUNTIME_DIR` of a user's session.
    package static func folders(runtimeDirectory: String?, sessionDirectory: String?, user: UInt32) -> [String] {
        let unit = runtimeDirectory.flatMap { $0.split(separator: ":").first }.map(String.init)
        let session = sessionDirectory.flatMap { $0.hasPrefix("/") ? "\($0)/authgateway" : nil }
        let own = user == 0 ? [] : ["/tmp/authgateway-\(user)"]
        var folders: [String] = []
        for folder in [unit, session].compactMap(\.self) + own + ["/run/authgateway"] where !folders.contains(folder) {
            folders.append(folder)
        }
        return folders
    }
}
