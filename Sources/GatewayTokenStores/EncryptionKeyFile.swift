import Foundation
import GatewayFiles

/// The file with the key of the token store. While the store is being encrypted with a new key, a second file beside
/// it holds the new key.
///
/// The store records which key it is encrypted with, so a crash during the change loses nothing.
package struct EncryptionKeyFile: Sendable {
    package let path: String
    /// A name that no person would choose: what it names is removed when a rotation is undone.
    package var preparedPath: String { path + ".authgateway-rotation" }

    package init(path: String) { self.path = path }

    package var isThere: Bool { FileIdentity(path) != nil }

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
        let key = try InstallationKey.loadOrCreate(path: preparedPath)
        do {
            try PrivateFile.synchronizeDirectory(of: preparedPath)
        } catch {
            throw InstallationKeyError("the key file \(preparedPath) may not last: \(error.reason)")
        }
        return key
    }

    /// Puts the prepared key in the place of the current one, which is then nowhere any more.
    package func promote() throws(InstallationKeyError) {
        do {
            try PrivateFile.replace(path, by: preparedPath)
        } catch {
            throw InstallationKeyError("\(preparedPath) cannot take the place of \(path): \(error.reason)")
        }
    }

    /// Forgets a key that was prepared and never used, and what a crash has left of making one; nothing else.
    ///
    /// - Returns: The names of the files that were removed.
    package func discardPrepared() -> [String] {
        let folder = (path as NSString).deletingLastPathComponent
        let prepared = (preparedPath as NSString).lastPathComponent
        return PrivateFile.names(beside: path).sorted().filter { name in
            guard name == prepared || PrivateFile.isTemporary(name, of: prepared) else { return false }
            return PrivateFile.remove((folder as NSString).appendingPathComponent(name))
        }
    }
}
