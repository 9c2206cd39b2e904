import ArgumentParser

struct PresetsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "presets",
        abstract: "List the services that the gateway knows by name.",
        discussion: """
            Examples:
              authgateway presets
              authgateway presets list google
              authgateway presets show github

            A preset brings the hosts of a service and how it authenticates. Use it with
            `authgateway add NAME`, or write `preset: NAME` in a credential or a route.
            """,
        subcommands: [PresetsListCommand.self, PresetsShowCommand.self],
        defaultSubcommand: PresetsListCommand.self
    )
}

struct PresetsListCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List presets, all or those with certain words.",
        discussion: """
            Examples:
              authgateway presets list
              authgateway presets list google --json
            """
    )

    @Argument(help: ArgumentHelp("Words of the name or the title.", valueName: "search"))
    var search: [String] = []

    @OptionGroup var config: ConfigOption
    @OptionGroup var json: JSONFlag

    func run() throws {
        Console.write(try PresetOperation.list(search, configuration: config.path, asJSON: json.isOn))
    }
}

struct PresetsShowCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show what a preset needs and what it writes.",
        discussion: """
            Examples:
              authgateway presets show github
            """
    )

    @Argument(help: "The name of the preset.")
    var name: String

    @OptionGroup var config: ConfigOption
    @OptionGroup var json: JSONFlag

    func run() throws {
        Console.write(try PresetOperation.show(name, configuration: config.path, asJSON: json.isOn))
    }
}
