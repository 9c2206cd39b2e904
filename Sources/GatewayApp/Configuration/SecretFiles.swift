import GatewayFiles
package import GatewayHTTP
import GatewayTokenStores
import Glibc

/// Secrets that a command puts into files of their own, which only this user may read: below `secrets` in the state directory.
///
/// They are collected first, so that nothing is written for a configuration that is refused.
package struct SecretFiles: Sendable {
    private struct File: Sendable {
        let path: String
        let secret: Secret
        /// The file of the key that encrypts it; nil for clear text.
        let keyPath: String?

        /// Whole or not at all. A file of another command stays.
        func write() throws(CommandFailure) {
            let content = try content
            do throws(PrivateFile.Failure) {
                try PrivateFile.createNew(path, content: content)
            } catch {
                throw CommandFailure(.failed, "\(path) cannot be written: \(error.reason)")
            }
        }

        private var content: [UInt8] {
            get throws(CommandFailure) {
                guard let keyPath else { return secret.withValue { Array($0.utf8) } }
                let name = path.split(separator: "/").last.map(String.init) ?? path
                do throws(StateError) {
                    return try SealedSecret.seal(secret, named: name, with: .loadOrCreate(path: keyPath))
                } catch {
                    throw CommandFailure(.failed, "\(path) cannot be written: \(error)")
                }
            }
        }
    }

    /// Absolute.
    package let directory: String
    /// The folder of the configuration file, absolute.
    private let folder: String
    /// Where the installation key is, or will be; nil if it is kept elsewhere (`tokens.key`).
    private let keyPath: String?
    private var files: [File] = []
    /// The user that the gateway will read them as, as far as that can be known.
    private let reader: UInt32?

    /// - Parameter hasKeyFile: Whether the installation key is in the state directory, so that secrets can be encrypted with it.
    package init(stateDirectory: String, folder: String, hasKeyFile: Bool = false) {
        directory = "\(stateDirectory)/secrets"
        keyPath = hasKeyFile ? "\(stateDirectory)/\(SealedSecret.keyName)" : nil
        self.folder = folder.hasSuffix("/") ? folder : folder + "/"
        reader = FileStatus.owner(of: stateDirectory) ?? FileStatus.owner(of: folder)
    }

    /// - Parameter isSealed: Encrypts it if the installation key is in the state directory; people do not need to read this file.
    /// - Returns: The path as the configuration names it.
    /// - Throws: When there is a file of this name already, or the gateway could not read it.
    package mutating func add(
        _ secret: Secret,
        as name: String,
        isSealed: Bool = false
    ) throws(CommandFailure) -> String {
        let path = "\(directory)/\(name)"
        try requireReader(path)
        guard FileIdentity(path) == nil else {
            let advice = "remove it, or use it with --secret file:PATH"
            throw CommandFailure(.failed, "\(path) is there already; \(advice)")
        }
        files.append(File(path: path, secret: secret, keyPath: isSealed ? keyPath : nil))
        return "\(shownDirectory)/\(name)"
    }

    private var isReader: Bool { geteuid() != 0 || reader == nil || reader == 0 }

    /// The file belongs to who writes it. Root would keep it from a gateway that runs as another user.
    private func requireReader(_ path: String) throws(CommandFailure) {
        guard let reader, !isReader else { return }
        let advice =
            "run the command as that user, or name another source: --secret env:NAME, file:PATH or systemd:NAME"
        throw CommandFailure(
            .failed,
            "\(path) would belong to root, and the user \(reader) runs the gateway; \(advice)"
        )
    }

    /// ``directory`` as the configuration names it: its paths are relative to its folder.
    package var shownDirectory: String {
        directory.hasPrefix(folder) ? "./\(directory.dropFirst(folder.count))" : directory
    }

    /// The names that are not to be given again.
    package var names: [String] { PrivateFile.names(beside: "\(directory)/x") }

    /// Says where the secrets are that were written; empty when there are none.
    package var notice: String {
        guard !files.isEmpty else { return "" }
        let names = files.map { "  \(LogText.clean($0.path))\n" }.joined()
        let isHidden = hiddenFolder.map { StateDirectory.isHiddenFromGit(String($0)) } ?? false
        let git = isHidden ? ", and git ignores it" : ""
        return "Only you can read what was pasted\(git):\n\(names)"
    }

    /// The state directory, where the gateway keeps its keys and tokens, too; nil where it is not below the folder of the configuration.
    /// Where it is that folder itself, only ``directory`` is hidden.
    private var hiddenFolder: Substring? {
        guard directory.hasPrefix(folder), let slash = directory.lastIndex(of: "/") else { return nil }
        let parts = directory.dropFirst(folder.count).split(separator: "/")
        guard !parts.contains("."), !parts.contains("..") else { return nil }
        return parts.count > 1 ? directory[..<slash] : directory[...]
    }

    package func hideFromGit() {
        guard isReader, let hiddenFolder else { return }
        StateDirectory.hideFromGit(String(hiddenFolder))
    }

    /// Removes files of ``directory``.
    ///
    /// - Returns: The files that are gone.
    package func remove(_ names: [String]) -> [String] { names.filter { PrivateFile.remove("\(directory)/\($0)") } }

    /// Writes the files, mode 0600, and then what names them. When something fails, none of them stays.
    package func write(before naming: () throws(CommandFailure) -> Void) throws(CommandFailure) {
        if !files.isEmpty { hideFromGit() }
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
