import ArgumentParser

struct StoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store",
        abstract: "Prepare the database that gateways share.",
        subcommands: [StoreMigrateCommand.self, StoreEncryptCommand.self]
    )
}

struct StoreMigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Make the tables of tokens.store: postgres, or bring them up to date.",
        discussion: """
            Examples:
              authgateway store migrate
              PGPASSWORD=… authgateway store migrate --url postgresql://owner@db.example.com/authgateway

            The first gateway on an empty database makes the tables itself, if its role
            may. With this command, a role of the owner makes them, so that gateways need
            no such right (docs/fleet.md names what they need). Gateways go on serving
            meanwhile. Tables of a newer authgateway are left as they are.

            Exit codes: 0 done, 1 failed or refused, 3 configuration.
            """
    )

    @OptionGroup var config: ConfigOption
    @OptionGroup var json: JSONFlag
    @OptionGroup var database: DatabaseURLOption

    func run() async throws {
        let commands = try StoreCommands(configuration: config.runningPath(), asJSON: json.isOn)
        Console.write(try await commands.migrate(database.url))
    }
}

struct StoreEncryptCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "encrypt",
        abstract: "Encrypt the tokens of tokens.store: postgres with another key.",
        discussion: """
            Example:
              authgateway store encrypt --url postgresql://owner@db.example.com/authgateway

            First give all gateways the new key as tokens.encryption_key and the present
            one as tokens.previous_encryption_key, and restart them: both keys open the
            tokens then. This command encrypts all of them with the new key, while the
            gateways go on. Then remove tokens.previous_encryption_key. After a crash,
            run it again.

            Exit codes: 0 done, 1 failed or refused, 3 configuration.
            """
    )

    @OptionGroup var config: ConfigOption
    @OptionGroup var json: JSONFlag
    @OptionGroup var database: DatabaseURLOption

    func run() async throws {
        let commands = try StoreCommands(configuration: config.runningPath(), asJSON: json.isOn)
        Console.write(try await commands.encrypt(database.url))
    }
}

struct DatabaseURLOption: ParsableArguments {
    @Option(
        name: .customLong("url"),
        help: ArgumentHelp(
            "Connect with this URL instead of tokens.url. Give a password as PGPASSWORD or in a password file.",
            valueName: "url"
        )
    )
    var url: String?
}
