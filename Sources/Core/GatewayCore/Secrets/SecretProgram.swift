/// A program that prints a secret of the configuration: `{exec: [program, argument], timeout: 5s, ttl: 10m}`.
package struct SecretProgram: Hashable, Sendable {
    /// The program and its arguments; no shell.
    package var command: [String]
    package var timeout: Duration
    /// How long what it printed is good for; nil is until the next reload.
    package var ttl: Duration?

    package init(_ command: [String], timeout: Duration, ttl: Duration? = nil) {
        self.command = command
        self.timeout = timeout
        self.ttl = ttl
    }

    /// For messages: the arguments may hold secrets.
    package var name: String { command.first ?? "" }
}
