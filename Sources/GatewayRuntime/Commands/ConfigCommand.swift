import ArgumentParser

struct ConfigCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "About the configuration's language.",
        discussion: """
            Examples:
              authgateway config explain limits.drain
              authgateway config schema > gateway.schema.json
            """,
        subcommands: [ConfigExplainCommand.self, ConfigSchemaCommand.self]
    )
}

struct ConfigExplainCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Say what a key of the configuration means: its type, its default and an example.",
        discussion: """
            Examples:
              authgateway config explain
              authgateway config explain limits.drain
              authgateway config explain routes.box.headers
              authgateway config explain token_url
              authgateway config explain oauth2_client_credentials

            A key is named by its path, by the last part of it, or together with its
            strategy (bearer.token). The name of a strategy alone shows its keys.
            Exit code 1 when there is no such key.
            """
    )

    @Argument(help: "The key or strategy; without it, the keys of the document are listed, with --json all keys.")
    var key: String?

    @OptionGroup var json: JSONFlag

    func run() throws { Console.write(try ExplainOperation.explain(key, asJSON: json.isOn)) }
}

struct ConfigSchemaCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "schema",
        abstract: "Print the JSON Schema (draft 2020-12) of the configuration.",
        discussion: """
            Examples:
              authgateway config schema > gateway.schema.json

            Editors use it when the first line of gateway.yaml is
              # yaml-language-server: $schema=./gateway.schema.json
            It knows keys, spellings and meanings; `authgateway check` knows the rest.
            """
    )

    func run() { Console.write(PlanOperation.schema()) }
}
