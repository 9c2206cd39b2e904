import Foundation
import GatewayCore

/// What the ciphertext of a row holds. Fields may be added; a change of meaning is a new ``version``.
struct TokenRecord: Codable {
    static let version = 1

    struct Attempt: Codable {
        let id: String
        let generation: Int
        let startedAt: Int64
    }

    let generation: Int
    let access: String
    let renewal: String?
    /// Absent in records of the first version that knew none.
    let extras: [String: String]?
    let obtainedAt: Int64
    let expiresAt: Int64?
    let renewalExpiresAt: Int64?
    let renewalObtainedAt: Int64?
    let previousRenewal: String?
    let attempt: Attempt?
    let isRejected: Bool
    let isRevoked: Bool?

    init(_ stored: StoredToken) {
        generation = stored.generation
        access = stored.token.access.withValue { $0 }
        renewal = stored.token.renewal?.withValue { $0 }
        extras = stored.token.extras.isEmpty ? nil : stored.token.extras.mapValues { $0.withValue { $0 } }
        obtainedAt = stored.token.obtainedAt.milliseconds
        expiresAt = stored.token.expiresAt?.milliseconds
        renewalExpiresAt = stored.token.renewalExpiresAt?.milliseconds
        renewalObtainedAt = stored.token.renewalObtainedAt?.milliseconds
        previousRenewal = stored.previousRenewal?.withValue { $0 }
        attempt = stored.attempt.map {
            Attempt(id: $0.id, generation: $0.generation, startedAt: $0.startedAt.milliseconds)
        }
        isRejected = stored.isRejected
        isRevoked = stored.isRevoked ? true : nil
    }

    var storedToken: StoredToken {
        StoredToken(
            generation: generation,
            token: TokenSet(
                access: Secret(access),
                renewal: renewal.map { Secret($0) },
                extras: extras?.mapValues { Secret($0) } ?? [:],
                obtainedAt: UnixTime(milliseconds: obtainedAt),
                expiresAt: expiresAt.map { UnixTime(milliseconds: $0) },
                renewalExpiresAt: renewalExpiresAt.map { UnixTime(milliseconds: $0) },
                renewalObtainedAt: renewalObtainedAt.map { UnixTime(milliseconds: $0) }
            ),
            previousRenewal: previousRenewal.map { Secret($0) },
            attempt: attempt.map {
                RotationAttempt(
                    id: $0.id,
                    generation: $0.generation,
                    startedAt: UnixTime(milliseconds: $0.startedAt)
                )
            },
            isRejected: isRejected,
            isRevoked: isRevoked ?? false
        )
    }
}
