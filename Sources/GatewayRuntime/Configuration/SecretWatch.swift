import GatewayCore
import Logging
import Synchronization

/// Asks programs for their secrets again when their `ttl` has ended, and reloads when one says something else.
final class SecretWatch: Sendable {
    typealias Ask = @Sendable (SecretProgram) async -> Result<Secret, SecretSourceError>

    static let interval = Duration.seconds(1)

    private let schedule: Mutex<SecretSchedule>
    private let ask: Ask
    private let clock: any GatewayClock
    private let logger: Logger

    /// - Parameter answers: What the programs said when the configuration was read.
    init(
        answers: [SecretProgram: ProgramAnswer],
        ask: @escaping Ask,
        clock: any GatewayClock,
        logger: Logger
    ) {
        schedule = Mutex(SecretSchedule(answers))
        self.ask = ask
        self.clock = clock
        self.logger = logger
    }

    /// What the programs have said last.
    var answers: [SecretProgram: ProgramAnswer] { schedule.withLock { $0.answers } }

    /// A configuration was loaded, with these answers.
    func replace(with answers: [SecretProgram: ProgramAnswer]) {
        schedule.withLock { $0.replace(with: answers) }
    }

    /// Until it is cancelled.
    ///
    /// - Parameter reload: Loads a configuration with ``answers``.
    func run(reload: @Sendable () async -> ReloadReport.Outcome) async {
        while (try? await clock.sleep(for: Self.interval)) != nil {
            let now = clock.monotonic()
            let due = schedule.withLock { $0.due(at: now) }
            guard !due.isEmpty else { continue }
            let news = await askAgain(due)
            guard !news.isEmpty, !Task.isCancelled else { continue }
            // What is refused waits for somebody to mend the configuration, which is a reload of its own.
            guard await reload() == .failed else { continue }
            let later = clock.monotonic()
            schedule.withLock { $0.owe(news, at: later) }
        }
    }

    /// - Returns: Those that said something else than before.
    private func askAgain(_ programs: [SecretProgram]) async -> [SecretProgram] {
        await withTaskGroup(of: (SecretProgram, Bool).self) { tasks in
            for program in programs {
                tasks.addTask { (program, self.isNews(await self.ask(program), of: program)) }
            }
            return await tasks.reduce(into: []) { news, answer in
                if answer.1 { news.append(answer.0) }
            }
        }
    }

    private func isNews(_ answer: Result<Secret, SecretSourceError>, of program: SecretProgram) -> Bool {
        // The program was given up with everything else.
        guard !Task.isCancelled else { return false }
        let now = clock.monotonic()
        switch answer {
        case .success(let secret):
            let change = schedule.withLock { $0.answered(program, secret, at: now) }
            if change.hasRecovered {
                logger.notice("Secret renewed again", metadata: ["program": "\(program.name)"])
            }
            return change.isNews
        case .failure(let error):
            let isFirst = schedule.withLock { $0.failed(program, at: now) }
            if isFirst {
                logger.warning(
                    "Secret not renewed; the one before is kept",
                    metadata: ["program": "\(program.name)", "reason": "\(error.message)"]
                )
            }
            return false
        }
    }
}
