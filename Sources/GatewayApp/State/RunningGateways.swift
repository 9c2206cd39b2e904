import FoundationEssentials
package import GatewayConfiguration
import GatewayEvents
import GatewayFiles
package import GatewayProxy
import Glibc

/// The gateways that run on this machine, so that commands find them from any folder: one small file for each.
///
/// It is a convenience. Where it cannot be written, commands need `--config`.
package struct RunningGateways: Sendable {
    /// The first is written to.
    private let folders: [String]

    /// - Parameter environment: What looks up a variable of the process.
    package init(environment: (String) -> String?) {
        folders = ConfigLocator.folders(
            runtimeDirectory: environment("RUNTIME_DIRECTORY"),
            sessionDirectory: environment("XDG_RUNTIME_DIR"),
            user: geteuid()
        )
    }

    init(folders: [String]) { self.folders = folders }

    // MARK: For the gateway

    /// Says what commands have to know of this process; ``withdraw()`` takes it back. Nothing is written to a folder that others
    /// can write to.
    ///
    /// - Parameters:
    ///   - configuration: The absolute path of the file.
    ///   - admin: The address that the admin listener is bound to.
    package func announce(_ plan: Plan, configuration: String, admin: BoundListener) {
        // Commands of this machine need no certificate.
        let socket = AdminPlan.localSocket(in: plan.stateDirectory)
        let local = plan.admin.tls == nil ? admin : BoundListener(address: socket, port: nil, isTLS: false)
        let key: String? = if case .file(let path) = plan.tokens.key { path } else { nil }
        let gateway = ConfigLocator.RunningGateway(
            process: Int(getpid()),
            configuration: configuration,
            stateDirectory: plan.stateDirectory,
            places: ConfigLocator.RunningGateway.Places(admin: local.boundText, audit: plan.audit.path, key: key)
        )
        guard let folder = folders.first, let data = try? JSONEncoder().encode(gateway) else { return }
        _ = unsafe mkdir(folder, 0o700)
        guard Self.isTrusted(folder) else { return }
        let text = String(decoding: data, as: UTF8.self) + "\n"
        // Users who may look into the folder, as into that of a unit, find the gateway for their programs.
        try? StateFile.write(text, to: Self.file(getpid(), in: folder), mode: 0o644, lasts: false)
    }

    package func withdraw() {
        guard let folder = folders.first else { return }
        _ = PrivateFile.remove(Self.file(getpid(), in: folder))
    }

    private static func file(_ process: Int32, in folder: String) -> String { "\(folder)/\(process).json" }

    // MARK: For commands

    /// A gateway that runs, and who says so.
    package struct Found {
        package let gateway: ConfigLocator.RunningGateway
        /// Who wrote the record: this user, root or, in `/run/authgateway`, the user of a service.
        package let owner: UInt32

        package var isOwn: Bool { owner == geteuid() }
    }

    /// The gateways whose state directory is held and whose configuration belongs to this user or to root. Where it is gone, the record must
    /// belong to one of them.
    ///
    /// Another user's file is not followed: reading a configuration can run the programs that it names.
    package func all() -> [ConfigLocator.RunningGateway] { found().map(\.gateway) }

    /// The only one that runs with this configuration.
    ///
    /// - Parameter path: Absolute.
    package func one(configuration path: String) -> Found? { Self.one(of: found(), configuration: path) }

    /// The gateways of other users that this user may know of, none for root. Whether one still runs cannot be told: who asks it has to
    /// check that the owner of the record listens there.
    ///
    /// Their configurations are not followed.
    package func shared() -> [Found] {
        guard geteuid() != 0 else { return [] }
        let others = records().filter { !$0.isOwn }
        // After a crash, the record of the next gateway stands beside that of the last one.
        return others.filter { found in
            Self.isProcess(found.gateway.process) || !others.contains { Self.isSuccessor($0, of: found) }
        }
    }

    /// The only one of ``shared()`` that runs with this configuration. If the file is this user's, only root is believed: another user
    /// would get the client token that is meant for this user's own gateway.
    ///
    /// - Parameter path: Absolute.
    package func shared(configuration path: String) -> Found? {
        let isOwnFile = FileStatus.owner(of: path) == geteuid()
        return Self.one(of: shared().filter { !isOwnFile || $0.owner == 0 }, configuration: path)
    }

    private static func isSuccessor(_ other: Found, of found: Found) -> Bool {
        other.owner == found.owner && other.gateway.stateDirectory == found.gateway.stateDirectory
            && isProcess(other.gateway.process)
    }

    /// Whether a process has this number.
    private static func isProcess(_ number: Int) -> Bool {
        guard let process = Int32(exactly: number), process > 0 else { return false }
        return kill(process, 0) == 0 || errno != ESRCH
    }

    private static func one(of found: [Found], configuration path: String) -> Found? {
        let file = FileIdentity(path)
        let found = found.filter { found in
            found.gateway.configuration == path || file != nil && FileIdentity(found.gateway.configuration) == file
        }
        return found.count == 1 ? found[0] : nil
    }

    private func found() -> [Found] {
        records().filter { found in
            (found.isOwn || geteuid() == 0)
                && Self.isOwner(FileStatus.owner(of: found.gateway.configuration) ?? found.owner)
        }
    }

    private func records() -> [Found] {
        var found: [Found] = []
        for folder in folders where Self.isTrusted(folder) {
            for name in PrivateFile.names(beside: "\(folder)/x").sorted() where name.hasSuffix(".json") {
                let path = "\(folder)/\(name)"
                // Owner and content of one file: who owns the folder may put a link to somebody else's there.
                guard let file = try? BoundedFile.read(path, limit: 64 << 10, followsLinks: false),
                    let gateway = Self.read(file.bytes), !found.contains(where: { $0.gateway == gateway })
                else { continue }
                found.append(Found(gateway: gateway, owner: file.owner))
            }
        }
        return found
    }

    private static func read(_ bytes: [UInt8]) -> ConfigLocator.RunningGateway? {
        guard let gateway = try? JSONDecoder().decode(ConfigLocator.RunningGateway.self, from: Data(bytes)),
            gateway.configuration.hasPrefix("/"), runs(gateway)
        else { return nil }
        return gateway
    }

    /// A crash leaves the file behind, and another gateway may hold the state directory by now.
    private static func runs(_ gateway: ConfigLocator.RunningGateway) -> Bool {
        guard StateDirectory.isHeld(gateway.stateDirectory) else { return false }
        guard let holder = StateFile.read("\(gateway.stateDirectory)/gateway.lock") else { return true }
        return holder.filter(\.isNumber) == String(gateway.process)
    }

    /// No other user can put files there.
    private static func isTrusted(_ folder: String) -> Bool {
        var status = stat()
        guard unsafe lstat(folder, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else { return false }
        guard status.st_mode & 0o022 == 0 else { return false }
        // Only root can make a folder in /run, also one for another user.
        return isOwner(status.st_uid) || folder == "/run/authgateway"
    }

    private static func isOwner(_ user: uid_t) -> Bool { user == 0 || user == geteuid() }
}
