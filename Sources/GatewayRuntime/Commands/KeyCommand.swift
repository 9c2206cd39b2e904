import ArgumentParser

struct KeyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key",
        abstract: "Replace the key that the stored tokens are encrypted with.",
        subcommands: [KeyRotateCommand.self]
    )
}

struct KeyRotateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rotate",
        abstract: "Make a new key for the token store and encrypt all tokens with it.",
        discussion: """
            Examples:
              authgateway key rotate
              authgateway key rotate --json | jq -r .file

            Goes through the running gateway, which goes on serving; when none runs,
            it works on the state directory. All tokens are encrypted anew in one
            transaction; a crash at any moment leaves a store that opens. The new key
            is a file with mode 0600: token.key.encryption beside token.key, unless
            tokens.encryption_key names another one. The old one opens nothing any
            more. Back the new one up.

            A key that comes from the environment, a systemd credential or a program
            is not the gateway's to write. Make a new one (openssl rand -hex 32), name
            it as tokens.encryption_key and the present one as
            tokens.previous_encryption_key, restart, then remove the latter.

            The key of the audit log and of all digests (tokens.key) stays as it is.
            Recorded as key_rotating and key_rotated.

            Exit codes: 0 done, 1 failed or refused, 3 configuration, 4 no gateway
            and no token store.
            """
    )

    @OptionGroup var config: ConfigOption
    @OptionGroup var json: JSONFlag

    func run() async throws {
        Console.write(try await KeyCommands(configuration: config.runningPath(), asJSON: json.isOn).rotate())
    }
}
