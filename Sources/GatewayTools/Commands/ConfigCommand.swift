import ArgumentParser
private import CPresets
import FoundationEssentials
import GatewayApp
import GatewayHTTP
import GatewayStrategies
import GatewayTokens

struct ConfigCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "Explain the configuration's keys, and print its schema.",
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

    func run() throws(CommandFailure) {
        let search = try ConfigKeySearch(Self.kept(), kinds: StrategyCatalog.builtIn.kinds)
        guard let key else {
            Console.write(try json.text(of: search.keys, or: Self.overview(search.top)))
            return
        }
        switch search.find(key) {
        case .found(let keys) where json.isOn: Console.write(try JSONText.pretty(keys))
        case .found(let keys): Console.write(keys.map(\.text).joined(separator: "\n"))
        case .unknown(let suggestion):
            let hint = suggestion.map { "; did you mean this?\n" + GatewayCommand.line("config", "explain", $0) } ?? ""
            throw CommandFailure(.failed, "no key is named \"\(LogText.clean(key))\"\(hint)")
        }
    }

    /// `schema/keys.json`, which a test compares with the decoders. Asking those takes seconds.
    static func kept() throws(CommandFailure) -> [ConfigKey] {
        var length = 0
        let start = unsafe authgateway_config_keys(&length)
        do {
            return try JSONDecoder().decode([ConfigKey].self, from: unsafe Data(bytes: start, count: length))
        } catch {
            throw CommandFailure(
                .failed,
                "the list of keys in this program is damaged: \(error)\nReport this as a bug."
            )
        }
    }

    private static func overview(_ keys: [ConfigKey]) -> String {
        var table = TextTable("KEY", "MEANING")
        for key in keys { table.add(key.path, key.meaning ?? "") }
        let kinds = StrategyCatalog.builtIn.kinds.map { "  \($0)\n" }.joined()
        return table.text(.current) + "\nStrategies, whose keys are explained by their name:\n" + kinds
    }
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

    func run() { Console.write(ConfigSchema.text(.builtIn)) }
}
