import Crypto
import Foundation
import GatewayCore

/// One row of the store as SQLite sees it.
struct SealedToken: Sendable {
    let key: String
    let generation: Int
    let updatedAt: String
    let version: Int
    let nonce: Data
    /// Ciphertext and tag.
    let ciphertext: Data
}

/// Encrypts with AES-256-GCM under a random nonce. Every plain column is bound as associated data, so that a row which
/// was edited, or copied over another one, does not open.
struct TokenSealer: Sendable {
    private let key: SymmetricKey

    init(key: SymmetricKey) { self.key = key }

    func seal(_ token: StoredToken, for name: CredentialKey, at time: UnixTime) throws -> SealedToken {
        let updatedAt = time.rfc3339
        let plaintext = try JSONEncoder().encode(TokenRecord(token))
        let bound = Self.associatedData(name.digest, token.generation, updatedAt, TokenRecord.version)
        let box = try AES.GCM.seal(plaintext, using: key, authenticating: bound)
        return SealedToken(
            key: name.digest,
            generation: token.generation,
            updatedAt: updatedAt,
            version: TokenRecord.version,
            nonce: Data(box.nonce),
            ciphertext: box.ciphertext + box.tag
        )
    }

    /// - Returns: nil when the row was not written with this key, or is not as it was written.
    func open(_ row: SealedToken) -> StoredToken? {
        let tagLength = 16
        guard row.ciphertext.count >= tagLength, let nonce = try? AES.GCM.Nonce(data: row.nonce),
            let box = try? AES.GCM.SealedBox(
                nonce: nonce,
                ciphertext: row.ciphertext.dropLast(tagLength),
                tag: row.ciphertext.suffix(tagLength)
            )
        else { return nil }
        let bound = Self.associatedData(row.key, row.generation, row.updatedAt, row.version)
        guard let plaintext = try? AES.GCM.open(box, using: key, authenticating: bound),
            let record = try? JSONDecoder().decode(TokenRecord.self, from: plaintext),
            record.generation == row.generation
        else { return nil }
        return record.storedToken
    }

    /// Recognises the key of a store before any row is read.
    var keyCheck: String {
        let code = HMAC<SHA256>.authenticationCode(for: Array("authgateway token store".utf8), using: key)
        return Hexadecimal.text(of: code)
    }

    private static func associatedData(_ key: String, _ generation: Int, _ at: String, _ version: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        for part in ["authgateway token", key, String(generation), at, String(version)] {
            bytes += Array("\(part.utf8.count):\(part)".utf8)
        }
        return bytes
    }
}
