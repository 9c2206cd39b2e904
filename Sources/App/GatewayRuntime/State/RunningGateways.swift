import FoundationEssentials
import GatewayCore
import GatewayFiles
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

    /// Says where this process has its configuration; ``withdraw()`` takes it back.
    package func announce(configuration: String, stateDirectory: String) {
        let gateway = ConfigLocator.RunningGateway(
            process: Int(getpid()),
            configuration: configuration,
            stateDirectory: stateDirectory
        )
        guard let folder = folders.first, let data = try? JSONEncoder().encode(gateway) else { return }
        _ = unsafe mkdir(folder, 0o700)
        guard Self.isTrusted(folder) else { return }
        try? StateFile.write(String(decoding: data, as: UTF8.self) + "\n", to: Self.file(getpid(), in: folder))
    }

    package func withdraw() {
        guard let folder = folders.first else { return }
        _ = PrivateFile.remove(Self.file(getpid(), in: folder))
    }

    private static func file(_ process: Int32, in folder: String) -> String { "\(folder)/\(process).json" }

    // MARK: For commands

    /// Those whose state directory is held and whose configuration belongs to this user or to root.
    ///
    /// Another user's file is not followed: reading a configuration can run the programs that it names.
    func all() -> [ConfigLocator.RunningGateway] {
        var found: [ConfigLocator.RunningGateway] = []
        for folder in folders where Self.isTrusted(folder) {
            for name in PrivateFile.names(beside: "\(folder)/x").sorted() where name.hasSuffix(".json") {
                guard let gateway = Self.read("\(folder)/\(name)"), !found.contains(gateway) else { continue }
                found.append(gateway)
            }
        }
        return found
    }

    private static func read(_ path: String) -> ConfigLocator.RunningGateway? {
        guard let text = StateFile.read(path),
            let gateway = try? JSONDecoder().decode(ConfigLocator.RunningGateway.self, from: Data(text.utf8)),
            gateway.configuration.hasPrefix("/"), isOwn(gateway.configuration), runs(gateway)
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

    private static func isOwn(_ path: String) -> Bool {
        FileStatus.owner(of: path).map(isOwner) ?? false
    }

    private static func isOwner(_ user: uid_t) -> Bool { user == 0 || user == geteuid() }
}
