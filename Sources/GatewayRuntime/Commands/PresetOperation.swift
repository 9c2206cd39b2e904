import GatewayConfiguration
import GatewayCore

/// What `presets` does.
package enum PresetOperation {
    /// - Parameter search: Words that a preset has to have; all presets without them.
    package static func list(_ search: [String], configuration: String, asJSON: Bool) throws(CommandFailure) -> String {
        let found = library(of: configuration).matches(search.joined(separator: " "))
        if asJSON { return try JSONText.pretty(found) }
        guard !found.isEmpty else {
            let words = LogText.clean(search.joined(separator: " "))
            throw CommandFailure(.failed, "no preset has \"\(words)\"; `authgateway presets` lists all")
        }
        var table = TextTable("PRESET", "SERVICE", "DOCUMENTATION READ")
        for preset in found { table.add(preset.name, preset.title, preset.read ?? "unverified") }
        return table.text
    }

    package static func show(_ name: String, configuration: String, asJSON: Bool) throws(CommandFailure) -> String {
        let preset = try preset(name, configuration: configuration)
        return asJSON ? try JSONText.pretty(preset) : preset.text
    }

    static func preset(_ name: String, configuration: String) throws(CommandFailure) -> Preset {
        try preset(name, in: library(of: configuration))
    }

    static func preset(_ name: String, in library: PresetLibrary) throws(CommandFailure) -> Preset {
        if let preset = library[name] { return preset }
        let hint = Suggestion.hint(for: name, in: library.names)
        let advice = hint.isEmpty ? "; `authgateway presets` lists them" : hint
        throw CommandFailure(.failed, "no preset is named \"\(LogText.clean(name))\"\(advice)")
    }

    /// The built-in presets, and those of the configuration if there is one.
    private static func library(of configuration: String) -> PresetLibrary {
        let loader = ConfigLoader.unread(SystemConfigFiles())
        return PresetLibrary.builtIn.overridden(by: loader.ownPresets(of: loader.load(configuration)).library)
    }
}
