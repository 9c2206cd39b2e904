import Crypto
import GatewayCore
import GatewayTokenStores

/// The keys that an SQLite token store may be encrypted with, and where the next one comes from.
struct StoreKeys: Sendable {
    enum Role {
        case current
        /// Made by a rotation that did not come to its end.
        case prepared
        case previous
    }

    private(set) var candidates: [(role: Role, key: SymmetricKey)] = []
    /// What the rows of a database are named with: see ``InstallationKey/credentialKey(for:)``.
    let names: SymmetricKey
    /// nil when the gateway cannot write what the key comes from.
    let file: EncryptionKeyFile?

    /// - Parameter installation: Encrypts the store as long as that has no key of its own.
    init(_ plan: TokenPlan, installation: InstallationKey) throws(InstallationKeyError) {
        names = installation.derived(for: .credentialKey)
        switch (plan.encryptionKey, plan.key) {
        case (.file(let path), _):
            file = EncryptionKeyFile(path: path)
            add(.current, try file?.loadOrCreate())
        case (.value(let secret), _):
            file = nil
            add(.current, try InstallationKey(secret))
        case (nil, .file(let path)):
            file = EncryptionKeyFile(path: path + ".encryption")
            add(.current, try file?.current() ?? installation)
        case (nil, .value):
            file = nil
            add(.current, installation)
        }
        add(.prepared, try file?.prepared())
        switch plan.previousEncryptionKey {
        case nil: break
        case .value(let secret): add(.previous, try InstallationKey(secret))
        case .file(let path):
            guard let key = try InstallationKey.load(path: path) else {
                throw InstallationKeyError("tokens.previous_encryption_key: there is no file \(path)")
            }
            add(.previous, key)
        }
    }

    private mutating func add(_ role: Role, _ key: InstallationKey?) {
        if let key { candidates.append((role, key.derived(for: .tokenStore))) }
    }
}
