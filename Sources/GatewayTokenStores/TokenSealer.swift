import Crypto
import Foundation
import GRDB
import GatewayHTTP
import GatewayTokens

/// One row of the store as SQLite sees it.
struct SealedToken: Sendable {
    let key: String
    let generation: Int
    let updatedAt: String
    let version: Int
    let nonce: Data
    /// Ciphertext and tag.
    let ciphertext: Data

    /// The ``version`` of a record that was removed. It holds nothing, and keeps the revision.
    static let removedVersion = 0

    var isRemoved: Bool { version == Self.removedVersion }

    static func removed(_ key: CredentialKey, at time: UnixTime) -> SealedToken {
        SealedToken(
            key: key.digest,
            generation: 0,
            updatedAt: time.rfc3339,
            version: removedVersion,
            nonce: Data(),
            ciphertext: Data()
        )
    }
}

/// What a change leaves in a record.
enum RecordContent: Sendable {
    case token(StoredToken)
    case nothing
    /// What the record holds already.
    case same

    /// - Parameter token: nil removes what the record holds.
    init(_ token: StoredToken?) { self = token.map { .token($0) } ?? .nothing }

    /// - Parameter store: What the store is called in messages.
    /// - Returns: nil leaves what the record holds.
    func sealed(
        for key: CredentialKey,
        by sealer: TokenSealer,
        at time: UnixTime,
        in store: String
    ) throws(TokenStoreError) -> SealedToken? {
        switch self {
        case .same: nil
        case .nothing: .removed(key, at: time)
        case .token(let token): try sealer.sealed(token, for: key, at: time, in: store)
        }
    }
}

/// Encrypts with AES-256-GCM under a random nonce. Every plain column is bound as associated data, so that a row which
/// was edited, or copied over another one, does not open.
struct TokenSealer: Sendable {
    private let key: SymmetricKey

    init(key: SymmetricKey) { self.key = key }

    func seal(_ token: StoredToken, for name: CredentialKey, at time: UnixTime) throws -> SealedToken {
        try seal(
            JSONEncoder().encode(TokenRecord(token)),
            SealedToken(
                key: name.digest,
                generation: token.generation,
                updatedAt: time.rfc3339,
                version: TokenRecord.version,
                nonce: Data(),
                ciphertext: Data()
            )
        )
    }

    /// Like ``seal(_:for:at:)``, with the error of a store.
    func sealed(
        _ token: StoredToken,
        for key: CredentialKey,
        at time: UnixTime,
        in store: String
    ) throws(TokenStoreError) -> SealedToken {
        guard let sealed = try? seal(token, for: key, at: time) else {
            throw .unavailable("a token could not be encrypted for \(store)")
        }
        return sealed
    }

    /// Encrypts a row again with this key. Its content is not decoded, so it may be of a newer version.
    ///
    /// - Returns: nil when `other` does not open it.
    func sealAgain(_ row: SealedToken, openedBy other: TokenSealer) -> SealedToken? {
        other.plaintext(of: row).flatMap { try? seal($0, row) }
    }

    /// - Parameter row: Its plain columns; nonce and ciphertext are made anew.
    func seal(_ plaintext: Data, _ row: SealedToken) throws -> SealedToken {
        let box = try AES.GCM.seal(plaintext, using: key, authenticating: Self.associatedData(row))
        return SealedToken(
            key: row.key,
            generation: row.generation,
            updatedAt: row.updatedAt,
            version: row.version,
            nonce: Data(box.nonce),
            ciphertext: box.ciphertext + box.tag
        )
    }

    /// - Returns: nil when the row was not written with this key, or is not as it was written.
    func open(_ row: SealedToken) -> StoredToken? {
        guard let plaintext = plaintext(of: row),
            let record = try? JSONDecoder().decode(TokenRecord.self, from: plaintext),
            record.generation == row.generation
        else { return nil }
        return record.storedToken
    }

    func plaintext(of row: SealedToken) -> Data? {
        let tagLength = 16
        guard row.ciphertext.count >= tagLength, let nonce = try? AES.GCM.Nonce(data: row.nonce),
            let box = try? AES.GCM.SealedBox(
                nonce: nonce,
                ciphertext: row.ciphertext.dropLast(tagLength),
                tag: row.ciphertext.suffix(tagLength)
            )
        else { return nil }
        return try? AES.GCM.open(box, using: key, authenticating: Self.associatedData(row))
    }

    /// Recognises the key of a store before any row is read.
    var keyCheck: String {
        let code = HMAC<SHA256>.authenticationCode(for: Array("authgateway token store".utf8), using: key)
        return Hexadecimal.text(of: code)
    }

    private static func associatedData(_ row: SealedToken) -> [UInt8] {
        var bytes = CanonicalBytes()
        for part in ["authgateway token", row.key, String(row.generation), row.updatedAt, String(row.version)] {
            bytes.add(part)
        }
        return bytes.bytes
    }
}

extension SealedToken {
    /// Whatever the file holds, reading it must not trap: columns of an unexpected type make nil.
    init?(key: String, columns: [DatabaseValue]) {
        guard columns.count == 5, let generation = Int.fromDatabaseValue(columns[0]),
            let updatedAt = String.fromDatabaseValue(columns[1]), let version = Int.fromDatabaseValue(columns[2]),
            let nonce = Data.fromDatabaseValue(columns[3]), let ciphertext = Data.fromDatabaseValue(columns[4])
        else { return nil }
        self.init(
            key: key,
            generation: generation,
            updatedAt: updatedAt,
            version: version,
            nonce: nonce,
            ciphertext: ciphertext
        )
    }
}
