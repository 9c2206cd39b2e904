import ArgumentParser
import GatewayRuntime

struct ConfigCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "About the configuration's language.",
        discussion: """
            Examples:
              authgateway config schema > gateway.schema.json
            """,
        subcommands: [ConfigSchemaCommand.self]
    )
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
            It knows keys and spellings; `authgateway check` knows the rest.
            """
    )

    func run() { Console.write(PlanOperation.schema()) }
}
