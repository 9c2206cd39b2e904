import GatewayCore
import GatewayFiles
import Glibc

/// Secrets that a command puts into files of their own, which only this user may read: below `secrets` in the state directory.
///
/// They are collected first, so that nothing is written for a configuration that is refused.
struct SecretFiles: Sendable {
    private struct File: Sendable {
        let path: String
        let secret: Secret
    }

    /// Absolute.
    let directory: String
    /// The folder of the configuration file, absolute.
    private let folder: String
    private var files: [File] = []
    private var written: [String] = []
    /// The user that the gateway will read them as, as far as that can be known.
    private let reader: UInt32?

    init(stateDirectory: String, folder: String) {
        directory = "\(stateDirectory)/secrets"
        self.folder = folder.hasSuffix("/") ? folder : folder + "/"
        reader = FileStatus.owner(of: stateDirectory) ?? FileStatus.owner(of: folder)
    }

    /// - Returns: The path as the configuration names it.
    /// - Throws: When there is a file of this name already, or the gateway could not read it.
    mutating func add(_ secret: Secret, as name: String) throws(CommandFailure) -> String {
        let path = "\(directory)/\(name)"
        try requireReader(path)
        guard FileIdentity(path) == nil else {
            let advice = "remove it, or use it with --secret file:PATH"
            throw CommandFailure(.failed, "\(path) is there already; \(advice)")
        }
        files.append(File(path: path, secret: secret))
        return "\(shownDirectory)/\(name)"
    }

    /// The file belongs to who writes it. Root would keep it from a gateway that runs as another user.
    private func requireReader(_ path: String) throws(CommandFailure) {
        guard geteuid() == 0, let reader, reader != 0 else { return }
        let advice =
            "run the command as that user, or name another source: --secret env:NAME, file:PATH or systemd:NAME"
        throw CommandFailure(.failed, "\(path) would be root's, and the user \(reader) runs the gateway; \(advice)")
    }

    /// ``directory`` as the configuration names it: its paths are relative to its folder.
    var shownDirectory: String {
        directory.hasPrefix(folder) ? "./\(directory.dropFirst(folder.count))" : directory
    }

    /// The names that are not to be given again.
    var names: [String] { PrivateFile.names(beside: "\(directory)/x") }

    /// Each whole or not at all; mode 0600.
    ///
    /// - Throws: Those that were written are removed then. A file of another command stays.
    mutating func write() throws(CommandFailure) {
        for file in files {
            do throws(PrivateFile.Failure) {
                try PrivateFile.createNew(file.path, content: file.secret.withValue { Array($0.utf8) })
                written.append(file.path)
            } catch {
                remove()
                throw CommandFailure(.failed, "\(file.path) cannot be written: \(error.reason)")
            }
        }
    }

    /// Takes ``write()`` back.
    mutating func remove() {
        for path in written { _ = PrivateFile.remove(path) }
        written = []
    }
}
