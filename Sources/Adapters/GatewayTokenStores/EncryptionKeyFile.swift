import Foundation

/// The file with the key of the token store and, while the store is being encrypted anew, a second one beside it with
/// the key that is to take its place.
///
/// The store itself says which of the two it is encrypted with, so a crash in between costs nothing.
package struct EncryptionKeyFile: Sendable {
    package let path: String
    private var preparedPath: String { path + ".new" }

    package init(path: String) { self.path = path }

    package var isThere: Bool { PrivateFile.Identity(path: path) != nil }

    package func current() throws(InstallationKeyError) -> InstallationKey? { try InstallationKey.load(path: path) }

    package func loadOrCreate() throws(InstallationKeyError) -> InstallationKey {
        try InstallationKey.loadOrCreate(path: path)
    }

    /// nil outside of a rotation.
    package func prepared() throws(InstallationKeyError) -> InstallationKey? {
        try InstallationKey.load(path: preparedPath)
    }

    /// Makes the next key, on the disk before this returns.
    package func prepare() throws(InstallationKeyError) -> InstallationKey {
        try InstallationKey.loadOrCreate(path: preparedPath)
    }

    /// Puts the prepared key in the place of the current one, which is then nowhere any more.
    package func promote() throws(InstallationKeyError) {
        do {
            try PrivateFile.replace(path, by: preparedPath)
        } catch {
            throw InstallationKeyError("\(preparedPath) cannot take the place of \(path): \(error.reason)")
        }
    }

    /// Forgets a key that was prepared and never used, and what a crash has left of making one.
    package func discardPrepared() {
        let folder = (path as NSString).deletingLastPathComponent
        let prefix = (preparedPath as NSString).lastPathComponent
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.isEmpty ? "." : folder)) ?? []
        for name in names where name == prefix || name.hasPrefix(prefix + ".") {
            try? FileManager.default.removeItem(atPath: (folder as NSString).appendingPathComponent(name))
        }
    }
}
