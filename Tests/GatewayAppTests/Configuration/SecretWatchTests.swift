import Crypto
import Foundation
import GatewayEvents
import GatewayHTTP
import GatewayTesting
import GatewayTokenStores
import GatewayTokens
import Logging
import Synchronization
import Testing

@testable import GatewayApp

@Suite(.timeLimit(.minutes(5)))
struct SecretWatchTests {
    private static let program = SecretProgram(["print-secret", "hunter2"], timeout: .seconds(5), ttl: .seconds(10))

    /// What the program says, how often it was asked, and what a reload comes to.
    private struct World: Sendable {
        var answer: Result<Secret, UnusableInput> = .success(Secret("one"))
        var asked = 0
        var outcome = ReloadReport.Outcome.loaded
        var reloads: [Secret] = []
    }

    private final class Lines: LogHandler, Sendable {
        private let lines = Mutex<[String]>([])
        var all: [String] { lines.withLock { $0 } }
        var metadata: Logger.Metadata {
            get { [:] }
            set {}
        }
        var logLevel: Logger.Level {
            get { .info }
            set {}
        }
        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { nil }
            set {}
        }
        func log(event: LogEvent) {
            lines.withLock { $0.append("\(event.level) \(event.message) \(event.metadata ?? [:])") }
        }
    }

    private let world = Watched(World())
    private let clock = ManualClock()
    private let lines = Lines()

    /// Runs `steps` beside the watch; `second` lets one second of it pass.
    private func run(_ steps: (_ second: () async throws -> Void) async throws -> Void) async throws {
        let (world, clock) = (world, clock)
        let watch = SecretWatch(
            answers: [Self.program: ProgramAnswer(secret: Secret("one"), at: clock.monotonic())],
            ask: { _ in
                world.update {
                    $0.asked += 1
                    return $0.answer
                }
            },
            clock: clock,
            logger: Logger(label: "test") { _ in lines }
        )
        let running = Task {
            await watch.run {
                let said = watch.answers
                let outcome = world.update { world in
                    world.reloads += said.values.map(\.secret)
                    return world.outcome
                }
                if outcome == .loaded { watch.replace(with: said) }
                return outcome
            }
        }
        try await clock.untilAsleep()
        try await steps {
            clock.advance(by: .seconds(1))
            try await clock.untilAsleep()
        }
        running.cancel()
        await running.value
    }

    @Test func aProgramRunsBeforeItsTTLEndsIfItsSecretWasRejected() {
        let program = SecretProgram(["print-secret"], timeout: .seconds(5), ttl: .seconds(3600))
        let start = MonotonicTime(nanoseconds: 0)
        var schedule = SecretSchedule([program: ProgramAnswer(secret: Secret("one"), at: start)])
        #expect(schedule.due(at: start + .seconds(60)) == [])
        schedule.secretWasRejected(at: start + .seconds(60))
        #expect(schedule.due(at: start + .seconds(60)) == [program])
        let change = schedule.answered(program, Secret("two"), at: start + .seconds(61))
        #expect(change.hasNewSecret)
        // Rejections without end ask for it every ten seconds.
        for second in 61..<71 { schedule.secretWasRejected(at: start + .seconds(second)) }
        #expect(schedule.due(at: start + .seconds(70)) == [])
        #expect(schedule.due(at: start + .seconds(71)) == [program])
        _ = schedule.failed(program, at: start + .seconds(71))
        _ = schedule.failed(program, at: start + .seconds(72))
        schedule.secretWasRejected(at: start + .seconds(72))
        #expect(schedule.due(at: start + .seconds(73)) == [], "a program that fails keeps its pause")
    }

    @Test func aRejectionCountsOnce() {
        let rejection = SecretRejectionFlag()
        #expect(!rejection.take())
        rejection.raise()
        rejection.raise()
        #expect(rejection.take() && !rejection.take())
    }

    @Test func theSameSecretIsNoNews() async throws {
        try await run { second in
            for _ in 0..<9 { try await second() }
            #expect(world.value.asked == 0, "it is good for ten seconds")
            for _ in 0..<11 { try await second() }
            #expect(world.value.asked == 2)
            #expect(world.value.reloads == [])
            #expect(lines.all == [])
        }
    }

    @Test func anotherSecretIsLoadedOnce() async throws {
        try await run { second in
            world.update { $0.answer = .success(Secret("two")) }
            for _ in 0..<20 { try await second() }
            #expect(world.value.asked == 2)
            #expect(world.value.reloads == [Secret("two")])
            #expect(lines.all == [])
        }
    }

    @Test func aProgramThatFailsIsAskedAgainWithBackOffAndSaidOnce() async throws {
        try await run { second in
            world.update { $0.answer = .failure(UnusableInput("print-secret exited with status 3")) }
            for _ in 0..<10 { try await second() }
            #expect(world.value.asked == 1)
            // After 1, 2, 4, 8, 16 and 32 seconds, and every 60 from then on.
            for _ in 0..<63 { try await second() }
            #expect(world.value.asked == 7)
            for _ in 0..<120 { try await second() }
            #expect(world.value.asked == 9)
            #expect(lines.all.count == 1 && lines.all[0].hasPrefix("warning Secret not renewed"))
            #expect(lines.all[0].contains("print-secret exited with status 3"))
            #expect(world.value.reloads == [])

            world.update { $0.answer = .success(Secret("one")) }
            for _ in 0..<60 { try await second() }
            #expect(lines.all.count == 2 && lines.all[1].hasPrefix("notice Secret renewed again"))
            #expect(!lines.all.joined().contains("hunter2"), "arguments are nobody's business")
            #expect(world.value.reloads == [])
        }
    }

    @Test func aReloadThatFailsIsTriedAgain() async throws {
        try await run { second in
            world.update { ($0.answer, $0.outcome) = (.success(Secret("two")), .failed) }
            for _ in 0..<13 { try await second() }
            #expect(world.value.reloads.count == 3, "at once, after one second and after two more")
            world.update { $0.outcome = .loaded }
            for _ in 0..<13 { try await second() }
            #expect(world.value.reloads == [Secret](repeating: Secret("two"), count: 4))
        }
    }

    @Test func aRefusedConfigurationWaitsToBeMended() async throws {
        try await run { second in
            world.update { ($0.answer, $0.outcome) = (.success(Secret("two")), .refused) }
            for _ in 0..<60 { try await second() }
            #expect(world.value.reloads == [Secret("two")])
        }
    }

    @Test func aReloadForAnotherReasonBringsItsOwnAnswers() {
        let now = clock.monotonic()
        var schedule = SecretSchedule([Self.program: ProgramAnswer(secret: Secret("one"), at: now)])
        schedule.replace(with: [Self.program: ProgramAnswer(secret: Secret("two"), at: now + .seconds(5))])
        #expect(schedule.due(at: now + .seconds(14)) == [])
        #expect(schedule.due(at: now + .seconds(15)) == [Self.program])
        schedule.replace(with: [:])
        #expect(schedule.answered(Self.program, Secret("three"), at: now) == SecretSchedule.AnswerChange())
        #expect(schedule.due(at: now + .seconds(60)) == [])
    }
}

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
            KeeperContext(
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
                logger: logger
            ),
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
