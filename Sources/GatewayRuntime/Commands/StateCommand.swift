import ArgumentParser

struct StateCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "state",
        abstract: "Back up the gateway's state, and restore it.",
        subcommands: [StateBackupCommand.self, StateRestoreCommand.self]
    )
}

struct StateBackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Copy audit log, tokens, locks and local authority into a new folder.",
        discussion: """
            Examples:
              authgateway state backup /backup/gateway-2026-03-01
              authgateway state backup /backup/gateway-2026-03-01 --with-keys

            Works while the gateway runs: SQLite copies each database as it is at one
            moment. The chain of the copied audit log is verified. manifest.json lists
            the files with their SHA-256, and is written last.

            Without --with-keys the tokens in it are encrypted and the keys are not in
            it: keep token.key, and token.key.encryption after a key rotate, elsewhere.
            With it, whoever reads the folder can use the tokens. The files of the
            folder `secrets` are in it then, too. Keys from the environment or a
            program are in no backup, and neither is gateway.yaml.

            Needs the installation key. Recorded as state_backed_up.

            Exit codes: 0 done, 1 failed, 2 wrong usage, 3 configuration, 4 the gateway
            does not answer, 5 done, but the audit log is broken.
            """
    )

    @Argument(help: ArgumentHelp("The folder of the backup: a new one, or an empty one.", valueName: "dir"))
    var folder: String

    @Flag(name: .customLong("with-keys"), help: "Copy the keys and the folder `secrets`, too.")
    var withKeys = false

    @OptionGroup var config: ConfigOption
    @OptionGroup var json: JSONFlag

    func run() async throws {
        let commands = try StateCommands(configuration: config.runningPath(), asJSON: json.isOn)
        Console.write(try await commands.backup(to: folder, includesKeys: withKeys))
    }
}

struct StateRestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Put a backup into the place of the gateway's state.",
        discussion: """
            Examples:
              authgateway state restore /backup/gateway-2026-03-01
              authgateway state restore /backup/gateway-2026-03-01 --replace

            The gateway must not run. The files are compared with the manifest, and the
            databases are opened with the key, before anything is changed. A backup of
            a newer version is refused.

            The state directory must be empty. With --replace, what is there is moved
            to its folder replaced-TIME, and nothing is deleted. For a backup without
            keys, put the key files in their places first; they may be there already.

            Refresh tokens may have been spent since the backup. Those that are valid
            once are not sent: the state is rotation_uncertain, and the credential
            needs a login when its token ends. If nothing has used them since the
            backup, use authgateway token refresh NAME. Recorded as state_restored.

            Exit codes: 0 done, 1 failed or refused, 3 configuration.
            """
    )

    @Argument(help: ArgumentHelp("The folder of the backup.", valueName: "dir"))
    var folder: String

    @Flag(help: "Move the state that is there aside.")
    var replace = false

    @OptionGroup var config: ConfigOption
    @OptionGroup var json: JSONFlag

    func run() async throws {
        let commands = try StateCommands(configuration: config.path(), asJSON: json.isOn)
        Console.write(try await commands.restore(from: folder, mayReplace: replace))
    }
}
