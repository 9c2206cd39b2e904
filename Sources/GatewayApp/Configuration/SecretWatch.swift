package import GatewayHTTP
import Logging
import Synchronization

/// Asks programs for their secrets again when their `ttl` has ended, and reloads when one says something else.
final class SecretWatch: Sendable {
    typealias Ask = @Sendable (SecretProgram) async -> Result<Secret, UnusableInput>

    static let interval = Duration.seconds(1)

    private let schedule: Mutex<SecretSchedule>
    private let rejection: SecretRejectionFlag
    private let ask: Ask
    private let clock: any GatewayClock
    private let logger: Logger

    /// - Parameter answers: What the programs said when the configuration was read.
    init(
        answers: [SecretProgram: ProgramAnswer],
        rejection: SecretRejectionFlag = SecretRejectionFlag(),
        ask: @escaping Ask,
        clock: any GatewayClock,
        logger: Logger
    ) {
        schedule = Mutex(SecretSchedule(answers))
        self.rejection = rejection
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
            let wasRejected = rejection.take()
            let due = schedule.withLock { schedule in
                if wasRejected { schedule.secretWasRejected(at: now) }
                return schedule.due(at: now)
            }
            guard !due.isEmpty else { continue }
            let changed = await askAgain(due)
            guard !changed.isEmpty, !Task.isCancelled else { continue }
            // A refused configuration is not tried again: fixing it causes a reload of its own.
            guard await reload() == .failed else { continue }
            let later = clock.monotonic()
            schedule.withLock { $0.owe(changed, at: later) }
        }
    }

    /// - Returns: The programs that printed another secret than before.
    private func askAgain(_ programs: [SecretProgram]) async -> [SecretProgram] {
        await withTaskGroup(of: (SecretProgram, Bool).self) { tasks in
            for program in programs {
                tasks.addTask { (program, self.isChange(await self.ask(program), of: program)) }
            }
            return await tasks.reduce(into: []) { changed, answer in
                if answer.1 { changed.append(answer.0) }
            }
        }
    }

    private func isChange(_ answer: Result<Secret, UnusableInput>, of program: SecretProgram) -> Bool {
        // The program was given up with everything else.
        guard !Task.isCancelled else { return false }
        let now = clock.monotonic()
        switch answer {
        case .success(let secret):
            let change = schedule.withLock { $0.answered(program, secret, at: now) }
            if change.hasRecovered {
                logger.notice("Secret renewed again", metadata: ["program": "\(program.name)"])
            }
            return change.hasNewSecret
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

/// Raised when an upstream has rejected a secret of the configuration: its program may print another one by now.
package final class SecretRejectionFlag: Sendable {
    private let isRaised = Atomic(false)

    package init() {}

    func raise() { isRaised.store(true, ordering: .relaxed) }

    /// - Returns: Whether it was raised since the last call.
    func take() -> Bool { isRaised.exchange(false, ordering: .relaxed) }
}

/// What a program printed, and when.
package struct ProgramAnswer: Hashable, Sendable {
    let secret: Secret
    let at: MonotonicTime
}

/// When which program is asked for its secret again.
struct SecretSchedule {
    private struct Entry {
        var answer: ProgramAnswer
        var due: MonotonicTime
        /// The program did not answer when it was asked last.
        var isFailing = false
        /// The plan that is served does not have this answer yet, for a reason that may pass by itself.
        var isOwed = false
        /// How many failures in a row there were, of either kind.
        var failures = 0

        mutating func backOff(at now: MonotonicTime) {
            due = now + min(.seconds(1 << min(failures, 10)), SecretSchedule.longestBackOff)
            failures += 1
        }
    }

    struct AnswerChange: Equatable {
        /// The program printed another secret than before, or the plan does not have this one yet.
        var hasNewSecret = false
        /// The program failed before.
        var hasRecovered = false
    }

    private static let longestBackOff = Duration.seconds(60)
    /// The shortest time between two runs of a program that rejections cause.
    private static let shortestLife = Duration.seconds(10)

    private var entries: [SecretProgram: Entry] = [:]

    init(_ answers: [SecretProgram: ProgramAnswer]) { replace(with: answers) }

    /// What the programs have said last.
    var answers: [SecretProgram: ProgramAnswer] { entries.mapValues(\.answer) }

    /// A configuration was loaded, with these answers.
    mutating func replace(with answers: [SecretProgram: ProgramAnswer]) {
        let earlier = entries
        entries = [:]
        for (program, answer) in answers {
            guard let ttl = program.ttl else { continue }
            entries[program] = Entry(answer: answer, due: answer.at + ttl)
            // A program that fails has not become better by what it said before.
            if let entry = earlier[program], entry.answer == answer, !entry.isOwed { entries[program] = entry }
        }
    }

    func due(at now: MonotonicTime) -> [SecretProgram] {
        entries.filter { $0.value.due <= now }.map(\.key)
    }

    /// A secret was rejected, so programs run again before their `ttl` has passed. Those that fail keep their pause.
    mutating func secretWasRejected(at now: MonotonicTime) {
        for (program, entry) in entries where !entry.isFailing && !entry.isOwed {
            entries[program]?.due = min(entry.due, max(now, entry.answer.at + Self.shortestLife))
        }
    }

    /// An answer of a program that the configuration no longer names changes nothing.
    mutating func answered(_ program: SecretProgram, _ secret: Secret, at now: MonotonicTime) -> AnswerChange {
        guard var entry = entries[program], let ttl = program.ttl else { return AnswerChange() }
        let change = AnswerChange(
            hasNewSecret: entry.isOwed || entry.answer.secret != secret,
            hasRecovered: entry.isFailing
        )
        entry.answer = ProgramAnswer(secret: secret, at: now)
        entry.due = now + ttl
        entry.isFailing = false
        if !entry.isOwed { entry.failures = 0 }
        entries[program] = entry
        return change
    }

    /// - Returns: Whether it had answered the time before.
    mutating func failed(_ program: SecretProgram, at now: MonotonicTime) -> Bool {
        guard let wasFailing = entries[program]?.isFailing else { return false }
        entries[program]?.isFailing = true
        entries[program]?.backOff(at: now)
        return !wasFailing
    }

    /// Their secrets could not be loaded, for a reason that may pass by itself.
    mutating func owe(_ programs: [SecretProgram], at now: MonotonicTime) {
        for program in programs {
            entries[program]?.isOwed = true
            entries[program]?.backOff(at: now)
        }
    }
}

/// Remembers which secret files were asked for, so that a corrected one is noticed, and what programs with a `ttl` said.
package final class RecordingSecretSource: SecretSource {
    private let source: SystemSecretSource
    private let files: RecordingConfigFiles
    private let remembered: [SecretProgram: ProgramAnswer]
    private let answers = Mutex<[SecretProgram: ProgramAnswer]>([:])

    /// - Parameter remembered: Programs that are not asked again.
    package init(
        _ source: SystemSecretSource,
        in files: RecordingConfigFiles,
        remembering remembered: [SecretProgram: ProgramAnswer]
    ) {
        self.remembered = remembered
        self.source = source
        self.files = files
    }

    package func environment(_ name: String) -> String? { source.environment(name) }
    package func unset(_ name: String) -> String { source.unset(name) }

    package func file(_ path: String) throws(UnusableInput) -> Secret {
        // Before it is read: what is written in between is then a change.
        files.note(secret: path)
        return try source.file(path)
    }

    /// What the programs with a `ttl` that were asked for have said.
    var programs: [SecretProgram: ProgramAnswer] { answers.withLock { $0 } }

    /// A program with a `ttl` is asked once, however often the configuration names it.
    package func program(_ program: SecretProgram) throws(UnusableInput) -> Secret {
        guard program.ttl != nil else { return try source.program(program) }
        if let known = programs[program] ?? remembered[program] {
            answers.withLock { $0[program] = known }
            return known.secret
        }
        let answer = ProgramAnswer(secret: try source.program(program), at: SystemClock().monotonic())
        answers.withLock { $0[program] = answer }
        return answer.secret
    }

    package func systemdCredential(_ name: String) throws(UnusableInput) -> Secret {
        try source.systemdCredential(name)
    }
    package func userID(ofName name: String) -> UInt32? { source.userID(ofName: name) }

    package func certificates(_ path: String) throws(UnusableInput) -> String {
        files.note(secret: path)
        return try source.certificates(path)
    }

    package func publicText(_ path: String) throws(UnusableInput) -> String {
        files.note(secret: path)
        return try source.publicText(path)
    }

    package func fits(_ tls: ClientTLS) -> Bool { source.fits(tls) }

    package func openPrivateKey(_ pem: Secret, passphrase: Secret?) -> PrivateKeyDER? {
        source.openPrivateKey(pem, passphrase: passphrase)
    }
}
