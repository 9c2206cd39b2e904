import Foundation
import GatewayCore
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
}
