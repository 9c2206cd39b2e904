import GatewayFiles

extension InstallationKey {
    /// Reads the key file at `path`, or creates it with 32 random bytes and mode 0600 when it is not there.
    ///
    /// Two processes that create it at the same time end up with the same key. A file that others may read, a symbolic
    /// link or a file of another user is refused: such a key may be known to somebody, or be somebody's.
    package static func loadOrCreate(path: String) throws(InstallationKeyError) -> InstallationKey {
        if let key = try load(path: path) { return key }
        do {
            try PrivateFile.create(path, content: randomBytes())
        } catch {
            throw InstallationKeyError("the key file \(path) cannot be created: \(error.reason)")
        }
        guard let key = try load(path: path) else {
            throw InstallationKeyError("the key file \(path) was removed while it was being created; try again")
        }
        return key
    }

    /// - Returns: nil when there is no file.
    package static func load(path: String) throws(InstallationKeyError) -> InstallationKey? {
        let content: [UInt8]?
        do {
            content = try PrivateFile.readSecret(path, limit: 64 << 10)
        } catch {
            throw InstallationKeyError("the key file \(path) cannot be used: \(error.reason)")
        }
        guard let content else { return nil }
        let bytes = content.count == byteCount ? content : bytes(from: String(decoding: content, as: UTF8.self))
        guard let bytes else {
            throw InstallationKeyError(
                "the key file \(path) has \(content.count) bytes and must hold \(byteCount) random bytes; restore it "
                    + "from a backup, or remove it together with the token store and the audit log that it protects"
            )
        }
        return try InstallationKey(bytes: bytes)
    }

    private static func randomBytes() -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<byteCount).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }
}
