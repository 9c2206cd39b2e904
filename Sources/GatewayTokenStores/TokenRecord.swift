import Crypto
import Foundation
import GatewayHTTP
import GatewayTokens

/// What the ciphertext of a row holds. Fields may be added; a change of meaning is a new ``version``.
struct TokenRecord: Codable {
    static let version = 1

    struct Attempt: Codable {
        let id: String
        let generation: Int
        let startedAt: Int64
    }

    /// A program that does not know it leaves it out when it writes the record, and sends the refresh token again.
    struct Refusal: Codable {
        /// SHA-256 of the refresh token that was refused, in hexadecimal.
        let digest: String
        /// A ``ProblemKind``.
        let kind: String
        let detail: String
        let code: String?
        let httpStatus: Int?
        let nextHop: String?
        let isRotationUncertain: Bool
    }

    let generation: Int
    let access: String
    let refreshToken: String?
    /// Absent in records of the first version that knew none.
    let extras: [String: String]?
    let obtainedAt: Int64
    let expiresAt: Int64?
    let refreshTokenExpiresAt: Int64?
    let refreshTokenObtainedAt: Int64?
    let previousRefreshToken: String?
    let attempt: Attempt?
    let isRejected: Bool
    let isRevoked: Bool?
    let isRestored: Bool?
    /// A program that does not know it leaves it out, and may then forget the earlier refresh token.
    let isUnproven: Bool?
    /// A program that does not know it leaves it out, and the next login asks for the scopes of the configuration alone.
    let addedScopes: [String]?
    let refusal: Refusal?

    /// The names in records that exist.
    private enum CodingKeys: String, CodingKey {
        case generation, access, extras, obtainedAt, expiresAt, attempt, isRejected, isRevoked, isRestored
        case isUnproven, addedScopes, refusal
        case refreshToken = "renewal"
        case refreshTokenExpiresAt = "renewalExpiresAt"
        case refreshTokenObtainedAt = "renewalObtainedAt"
        case previousRefreshToken = "previousRenewal"
    }

    init(_ stored: StoredToken) {
        generation = stored.generation
        access = stored.token.access.withValue { $0 }
        refreshToken = stored.token.refreshToken?.withValue { $0 }
        extras = stored.token.extras.isEmpty ? nil : stored.token.extras.mapValues { $0.withValue { $0 } }
        obtainedAt = stored.token.obtainedAt.milliseconds
        expiresAt = stored.token.expiresAt?.milliseconds
        refreshTokenExpiresAt = stored.token.refreshTokenExpiresAt?.milliseconds
        refreshTokenObtainedAt = stored.token.refreshTokenObtainedAt?.milliseconds
        previousRefreshToken = stored.previousRefreshToken?.withValue { $0 }
        attempt = stored.attempt.map {
            Attempt(id: $0.id, generation: $0.generation, startedAt: $0.startedAt.milliseconds)
        }
        isRejected = stored.isRejected
        isRevoked = stored.isRevoked ? true : nil
        isRestored = stored.isRestored ? true : nil
        isUnproven = stored.isUnproven ? true : nil
        addedScopes = stored.token.addedScopes.isEmpty ? nil : stored.token.addedScopes
        refusal = stored.knownRefusal.map { Refusal($0) }
    }

    var storedToken: StoredToken {
        var stored = StoredToken(
            generation: generation,
            token: TokenSet(
                access: Secret(access),
                refreshToken: refreshToken.map { Secret($0) },
                extras: extras?.mapValues { Secret($0) } ?? [:],
                obtainedAt: UnixTime(milliseconds: obtainedAt),
                expiresAt: expiresAt.map { UnixTime(milliseconds: $0) },
                refreshTokenExpiresAt: refreshTokenExpiresAt.map { UnixTime(milliseconds: $0) },
                refreshTokenObtainedAt: refreshTokenObtainedAt.map { UnixTime(milliseconds: $0) }
            ),
            previousRefreshToken: previousRefreshToken.map { Secret($0) },
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
        stored.isRestored = isRestored ?? false
        stored.isUnproven = isUnproven ?? false
        stored.token.addedScopes = addedScopes ?? []
        stored.refusal = stored.token.refreshToken.flatMap { refusal?.refusal(of: $0) }
        return stored
    }
}

/// A refusal as it is stored, with a digest of the refresh token in place of the token.
extension TokenRecord.Refusal {
    init(_ refusal: RefreshTokenRefusal) {
        let problem = refusal.problem
        digest = Self.digest(of: refusal.refreshToken)
        kind = problem.kind.rawValue
        detail = problem.detail
        code = problem.cause?.code
        httpStatus = problem.cause?.httpStatus
        nextHop = problem.nextHop
        isRotationUncertain = refusal.isRotationUncertain
    }

    /// - Returns: nil when another refresh token was refused.
    func refusal(of refreshToken: Secret) -> RefreshTokenRefusal? {
        guard digest == Self.digest(of: refreshToken) else { return nil }
        let hasCause = code != nil || httpStatus != nil
        let problem = GatewayProblem(
            // A newer program may know more kinds.
            ProblemKind(rawValue: kind) ?? .reauthorizationRequired,
            detail,
            cause: hasCause ? GatewayProblem.Cause(code: code, httpStatus: httpStatus) : nil,
            nextHop: nextHop
        )
        return RefreshTokenRefusal(of: refreshToken, isRotationUncertain: isRotationUncertain, problem: problem)
    }

    private static func digest(of refreshToken: Secret) -> String {
        Hexadecimal.text(of: refreshToken.withValue { SHA256.hash(data: Array($0.utf8)) })
    }
}
