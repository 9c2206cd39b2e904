/// A program that prints a token, described as a value; a ``ProgramRunner`` runs it.
package struct TokenProgram: Hashable, Sendable {
    package struct Variable: Hashable, Sendable {
        package let name: String
        package let value: Secret

        package init(_ name: String, _ value: Secret) {
            self.name = name
            self.value = value
        }
    }

    /// The program and its arguments; no shell reads them. Never holds a secret: every user of the machine sees it.
    package var command: [String]
    /// Beside the few variables that every program is given.
    package var environment: [Variable]
    package var timeout: Duration

    package init(command: [String], environment: [Variable] = [], timeout: Duration) {
        self.command = command
        self.environment = environment
        self.timeout = timeout
    }
}

extension TokenProgram: CanonicalValue {
    package func add(to bytes: inout CanonicalBytes) {
        bytes.add(command)
        bytes.add(environment) { $1.add(to: &$0) }
        bytes.add(timeout)
    }
}

extension TokenProgram.Variable: CanonicalValue {
    package func add(to bytes: inout CanonicalBytes) {
        bytes.add(name)
        bytes.add(value)
    }
}

/// Why a program printed nothing that could be used.
package struct ProgramFailure: Error, Hashable, Sendable {
    package enum Reason: String, CaseIterable, Sendable {
        /// There is no such program, or it may not be run.
        case notFound = "program_not_found"
        case notStarted = "program_not_started"
        case timedOut = "program_timed_out"
        case outputTooLarge = "program_output_too_large"
        case failed = "program_failed"
    }

    package let reason: Reason
    /// Follows the name of the program: `ended with status 3`. Never anything that it printed.
    package let message: String
    /// What it printed before it failed, for callers that know what to look for; not to be shown.
    package let output: Secret

    package init(_ reason: Reason, _ message: String, output: Secret = Secret("")) {
        self.reason = reason
        self.message = message
        self.output = output
    }
}
