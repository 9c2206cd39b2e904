/// A program that prints a secret of the configuration: `{exec: [program, argument], environment: {…}, timeout: 5s}`.
package struct SecretProgram: Hashable, Sendable {
    /// The program and its arguments; no shell.
    package var command: [String]
    /// Beside the few variables that every program is given (``ProgramEnvironment``).
    package var environment: [String: Secret]
    package var timeout: Duration
    /// How long what it printed is good for; nil is until the next reload.
    package var ttl: Duration?

    package init(
        _ command: [String],
        environment: [String: Secret] = [:],
        timeout: Duration,
        ttl: Duration? = nil
    ) {
        self.command = command
        self.environment = environment
        self.timeout = timeout
        self.ttl = ttl
    }

    /// For messages: the arguments may hold secrets.
    package var name: String { command.first ?? "" }
}
