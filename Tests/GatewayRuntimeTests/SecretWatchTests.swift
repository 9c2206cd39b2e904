import GatewayCore
import GatewayTesting
import Logging
import Synchronization
import Testing

@testable import GatewayRuntime

@Suite(.timeLimit(.minutes(5)))
struct SecretWatchTests {
    private static let program = SecretProgram(["print-secret", "hunter2"], timeout: .seconds(5), ttl: .seconds(10))

    /// What the program says, how often it was asked, and what a reload comes to.
    private struct World: Sendable {
        var answer: Result<Secret, SecretSourceError> = .success(Secret("one"))
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
            world.update { $0.answer = .failure(SecretSourceError("print-secret ended with status 3")) }
            for _ in 0..<10 { try await second() }
            #expect(world.value.asked == 1)
            // After 1, 2, 4, 8, 16 and 32 seconds, and every 60 from then on.
            for _ in 0..<63 { try await second() }
            #expect(world.value.asked == 7)
            for _ in 0..<120 { try await second() }
            #expect(world.value.asked == 9)
            #expect(lines.all.count == 1 && lines.all[0].hasPrefix("warning Secret not renewed"))
            #expect(lines.all[0].contains("print-secret ended with status 3"))
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
