import GatewayCore
import GatewayFiles

/// Keeps a secret that a person has pasted: in a file that only this user may read, beside the other state.
struct SecretDeposit: Sendable {
    /// Absolute.
    let stateDirectory: String
    /// The folder of the configuration file, absolute.
    let folder: String
    /// What the secrets are for: part of the names of the files.
    let owner: String

    /// - Returns: The path as the configuration names it.
    /// - Throws: When there is a file of this name already, or none can be made.
    func store(_ secret: Secret, as name: String) throws(CommandFailure) -> String {
        let path = "\(stateDirectory)/secrets/\(owner).\(name)"
        guard FileIdentity(path) == nil else {
            throw CommandFailure(
                .failed,
                "\(path) is there already; remove it, or name it with --secret \(name)=file:PATH"
            )
        }
        do throws(PrivateFile.Failure) {
            let bytes = secret.withValue { Array("\($0)\n".utf8) }
            try PrivateFile.create(path, content: bytes)
        } catch {
            throw CommandFailure(.failed, "\(path) cannot be written: \(error.reason)")
        }
        return path.hasPrefix("\(folder)/") ? "./\(path.dropFirst(folder.count + 1))" : path
    }
}
