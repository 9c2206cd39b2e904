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

        /// Whole or not at all. A file of another command stays.
        func write() throws(CommandFailure) {
            do throws(PrivateFile.Failure) {
                try PrivateFile.createNew(path, content: secret.withValue { Array($0.utf8) })
            } catch {
                throw CommandFailure(.failed, "\(path) cannot be written: \(error.reason)")
            }
        }
    }

    /// Absolute.
    let directory: String
    /// The folder of the configuration file, absolute.
    private let folder: String
    private var files: [File] = []
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

    /// Writes the files, mode 0600, and then what names them. When something fails, none of them stays.
    func write(before naming: () throws(CommandFailure) -> Void) throws(CommandFailure) {
        var written: [File] = []
        do throws(CommandFailure) {
            for file in files {
                try file.write()
                written.append(file)
            }
            try naming()
        } catch {
            for file in written { _ = PrivateFile.remove(file.path) }
            throw error
        }
    }
}
