import ArgumentParser
import GatewayApp
import GatewayConfiguration
import GatewayHTTP

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

    func run() throws(CommandFailure) {
        let found = try PresetLibrary(of: config.path).matches(search.joined(separator: " "))
        if json.isOn {
            Console.write(try JSONText.pretty(found))
            return
        }
        guard !found.isEmpty else {
            let words = LogText.clean(search.joined(separator: " "))
            throw CommandFailure(.failed, "no preset has \"\(words)\"; `authgateway presets` lists all")
        }
        var table = TextTable("PRESET", "SERVICE", "DOCUMENTATION READ")
        for preset in found { table.add(preset.name, preset.title, preset.read ?? "unverified") }
        Console.write(table.text)
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

    func run() throws(CommandFailure) {
        let preset = try PresetLibrary(of: config.path).preset(named: name)
        Console.write(try json.text(of: preset, or: preset.text))
    }
}

extension PresetLibrary {
    /// The built-in presets, and those of the configuration if there is one.
    init(of configuration: String) {
        let loader = ConfigLoader.unread(SystemConfigFiles())
        self = .builtIn.overridden(by: loader.ownPresets(of: loader.load(configuration)).library)
    }

    func preset(named name: String) throws(CommandFailure) -> Preset {
        if let preset = self[name] { return preset }
        let hint = Suggestion.hint(for: name, in: names)
        let advice = hint.isEmpty ? "; `authgateway presets` lists them" : hint
        throw CommandFailure(.failed, "no preset is named \"\(LogText.clean(name))\"\(advice)")
    }
}
