import GatewayCore

/// What a program printed, and when.
struct ProgramAnswer: Hashable, Sendable {
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
        /// In a row, of either kind.
        var failures = 0

        mutating func backOff(at now: MonotonicTime) {
            due = now + min(.seconds(1 << min(failures, 10)), SecretSchedule.longestBackOff)
            failures += 1
        }
    }

    struct AnswerChange: Equatable {
        /// It is not what the program said before.
        var isNews = false
        /// The program failed before.
        var hasRecovered = false
    }

    static let longestBackOff = Duration.seconds(60)

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

    /// An answer of a program that the configuration no longer names changes nothing.
    mutating func answered(_ program: SecretProgram, _ secret: Secret, at now: MonotonicTime) -> AnswerChange {
        guard var entry = entries[program], let ttl = program.ttl else { return AnswerChange() }
        let change = AnswerChange(
            isNews: entry.isOwed || entry.answer.secret != secret,
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
