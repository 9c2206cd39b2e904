import Crypto
import Foundation
import GatewayCore
import GatewayTesting
import GatewayTokenStores
import GatewayTokens
import Logging
import Testing

/// Two keepers with a store each on one SQLite file. That is not a way to run gateways, but no token may be lost by it.
@Suite("Two keepers on one file", .timeLimit(.minutes(5)))
final class SharedFileTests {
    private let folder =
        FileManager.default.temporaryDirectory.appendingPathComponent("shared-\(UUID().uuidString)").path
    private let name = CredentialKey(digest: "00112233445566778899aabbccddeeff")
    private let clock = ManualClock()

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    private func keeper(_ store: SQLiteTokenStore, _ authority: StrictAuthority) -> TokenKeeper {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return TokenKeeper(
            name: "box",
            strategyKind: "sample",
            grant: SampleGrant(rotatesRefreshToken: true),
            policy: RenewalPolicy(),
            key: name,
            store: store,
            endpoint: authority,
            audit: RecordingAuditLog(),
            onAuditFailure: .block,
            clock: clock,
            logger: logger,
            jitter: { 0 }
        )
    }

    private static func credential(_ keeper: TokenKeeper, at clock: ManualClock) async -> Credential? {
        if case .ready(let credential) = keeper.current(at: clock.now().monotonic) { return credential }
        let demand = CredentialRequest(route: "box", client: nil, requestID: "r1")
        return await withCheckedContinuation { continuation in
            _ = keeper.wait(for: demand) { continuation.resume(returning: try? $0.get()) }
        }
    }

    @Test func aThousandExpirationsCostAThousandCalls() async throws {
        let key = SymmetricKey(size: .bits256)
        let path = "\(folder)/tokens.sqlite"
        let (one, other) = (try SQLiteTokenStore(path: path, key: key), try SQLiteTokenStore(path: path, key: key))
        let ended = TokenSet(
            access: Secret("access-0"),
            refreshToken: Secret("refresh-0"),
            obtainedAt: clock.now().wall + .seconds(-4000),
            expiresAt: clock.now().wall + .seconds(-400)
        )
        try await one.replace(StoredToken(generation: 1, token: ended), for: name)
        let authority = StrictAuthority(accepting: ended.refreshToken)
        let (keepers, clock) = ([keeper(one, authority), keeper(other, authority)], clock)
        await withThrowingTaskGroup(of: Void.self) { group in
            for keeper in keepers { group.addTask { try await keeper.run() } }
            defer { group.cancelAll() }
            for _ in 1...1000 {
                let pump = Task {
                    // Whoever finds the record leased asks again after a second.
                    while (try? await Task.sleep(for: .milliseconds(1))) != nil { clock.advance(by: .seconds(1)) }
                }
                async let first = Self.credential(keepers[0], at: clock)
                async let second = Self.credential(keepers[1], at: clock)
                let tokens = await (first, second)
                pump.cancel()
                #expect(tokens.0 != nil && tokens.0?.injection == tokens.1?.injection)
                clock.advance(by: .seconds(3601))
            }
        }
        #expect(authority.refusals == 0)
        #expect(authority.calls >= 1000 && authority.calls <= 1010)
        await one.close()
        await other.close()
    }
}
