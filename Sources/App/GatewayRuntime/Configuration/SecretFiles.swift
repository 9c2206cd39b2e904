import GatewayCore
import GatewayFiles

/// Secrets that a command puts into files of their own, which only this user may read: below `secrets` in the state directory.
///
/// They are collected first, so that nothing is written for a configuration that is refused.
struct SecretFiles: Sendable {
    private struct File: Sendable {
        let path: String
        let secret: Secret

        /// Whole or not at all.
        func write() throws(CommandFailure) {
            do throws(PrivateFile.Failure) {
                try PrivateFile.create(path, content: secret.withValue { Array($0.utf8) })
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

    init(stateDirectory: String, folder: String) {
        directory = "\(stateDirectory)/secrets"
        self.folder = folder.hasSuffix("/") ? folder : folder + "/"
    }

    /// - Returns: The path as the configuration names it.
    /// - Throws: When there is a file of this name already.
    mutating func add(_ secret: Secret, as name: String) throws(CommandFailure) -> String {
        let path = "\(directory)/\(name)"
        guard FileIdentity(path) == nil else {
            let advice = "remove it, or use it with --secret file:PATH"
            throw CommandFailure(.failed, "\(path) is there already; \(advice)")
        }
        files.append(File(path: path, secret: secret))
        return "\(shownDirectory)/\(name)"
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
