import Foundation
import GatewayHTTP
import GatewayTokens
import Testing

@testable import GatewayTokenStores

@Suite("The record of a stored token", .timeLimit(.minutes(5)))
struct TokenRecordTests {
    /// A record that an earlier build of this format wrote.
    private let json = """
        {"access":"a","attempt":{"generation":2,"id":"x","startedAt":3},"expiresAt":4,"extras":{"e":"f"},"generation":1,\
        "isRejected":true,"isRevoked":true,"obtainedAt":5,"previousRenewal":"p","renewal":"r","renewalExpiresAt":6,\
        "renewalObtainedAt":7}
        """

    @Test func theNamesInItDoNotChange() throws {
        let stored = try JSONDecoder().decode(TokenRecord.self, from: Data(json.utf8)).storedToken
        #expect(stored.token.refreshToken == Secret("r"))
        #expect(stored.previousRefreshToken == Secret("p"))
        #expect(stored.token.refreshTokenExpiresAt == UnixTime(milliseconds: 6))
        #expect(stored.token.refreshTokenObtainedAt == UnixTime(milliseconds: 7))
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        #expect(String(decoding: try encoder.encode(TokenRecord(stored)), as: UTF8.self) == json)
    }

    @Test func anUnprovenRefreshTokenStaysOne() throws {
        let token = TokenSet(access: Secret("a"), refreshToken: Secret("r"), obtainedAt: UnixTime(milliseconds: 5))
        var stored = StoredToken(generation: 1, token: token, previousRefreshToken: Secret("p"))
        stored.isUnproven = true
        stored.token.addedScopes = ["files:write", "admin"]
        let data = try JSONEncoder().encode(TokenRecord(stored))
        #expect(try JSONDecoder().decode(TokenRecord.self, from: data).storedToken == stored)
    }

    private func refused(_ refreshToken: String) -> StoredToken {
        let token = TokenSet(
            access: Secret("a"),
            refreshToken: Secret("renewal"),
            obtainedAt: UnixTime(milliseconds: 5)
        )
        var stored = StoredToken(generation: 1, token: token)
        stored.refusal = RefreshTokenRefusal(
            of: Secret(refreshToken),
            isRotationUncertain: true,
            problem: GatewayProblem(
                .loginRequired,
                "Log in.",
                cause: GatewayProblem.Cause(code: "invalid_grant", httpStatus: 400),
                nextHop: "id.example.com"
            )
        )
        return stored
    }

    @Test func aRefusalNamesItsRefreshTokenByADigest() throws {
        let data = try JSONEncoder().encode(TokenRecord(refused("renewal")))
        let text = String(decoding: data, as: UTF8.self)
        #expect(text.components(separatedBy: #""renewal""#).count == 3, "the key and the refresh token itself")
        #expect(try JSONDecoder().decode(TokenRecord.self, from: data).storedToken == refused("renewal"))
        #expect(TokenRecord(refused("another")).refusal == nil)
        // A program that does not know refusals has replaced the token.
        let other = text.replacing(#":"renewal""#, with: #":"later""#)
        #expect(try JSONDecoder().decode(TokenRecord.self, from: Data(other.utf8)).storedToken.refusal == nil)
    }

    @Test func aRefusalOfAKindThatIsNotKnownAsksForALogin() throws {
        let data = try JSONEncoder().encode(TokenRecord(refused("renewal")))
        let newer = String(decoding: data, as: UTF8.self).replacing(#""login-required""#, with: #""newer-kind""#)
        let stored = try JSONDecoder().decode(TokenRecord.self, from: Data(newer.utf8)).storedToken
        #expect(stored.knownRefusal?.problem.kind == .reauthorizationRequired)
    }
}
