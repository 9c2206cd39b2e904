import Crypto
import GatewayCore
import GatewayFiles
import GatewayTokenStores

/// Copies and digests the files of a backup.
enum BackupCopy {
    /// Copies a file to `target`, which must not exist, with mode 0600. The copy is on the disk when this returns.
    static func copy(_ source: String, to target: String, as file: BackupFile) throws(StateError) -> BackupManifest.File
    {
        var (digest, size) = (SHA256(), 0)
        do {
            try CopiedFile.copy(source, to: target) { piece in
                digest.update(data: piece)
                size += piece.count
            }
        } catch {
            throw StateError("\(source) cannot be copied to \(target): \(error.reason)")
        }
        return BackupManifest.File(name: file.name, bytes: size, sha256: Hexadecimal.text(of: digest.finalize()))
    }

    static func digest(of path: String, as file: BackupFile) throws(StateError) -> BackupManifest.File {
        var (digest, size) = (SHA256(), 0)
        do {
            try CopiedFile.readPieces(path) { (piece) throws(PrivateFile.Failure) in
                digest.update(data: piece)
                size += piece.count
            }
        } catch {
            throw StateError("\(path) cannot be read: \(error.reason)")
        }
        return BackupManifest.File(name: file.name, bytes: size, sha256: Hexadecimal.text(of: digest.finalize()))
    }
}

extension BackupManifest {
    func code(by key: InstallationKey) -> String {
        let code = HMAC<SHA256>.authenticationCode(
            for: authenticatedBytes,
            using: key.derived(for: .backupManifest)
        )
        return Hexadecimal.text(of: code)
    }

    func isAuthentic(for key: InstallationKey) -> Bool {
        guard let code = Hexadecimal.bytes(of: authentication) else { return false }
        return HMAC<SHA256>.isValidAuthenticationCode(
            code,
            authenticating: authenticatedBytes,
            using: key.derived(for: .backupManifest)
        )
    }
}
