import GatewayCore

/// The parameters of a preset as the command line gives them, or a person at a terminal.
enum PresetParameters {
    /// - Parameters:
    ///   - options: `NAME=VALUE`, each.
    ///   - isInteractive: Asks for those that are needed and missing.
    static func values(
        _ options: [String],
        of preset: Preset,
        isInteractive: Bool
    ) throws(CommandFailure) -> [String: String] {
        let names = preset.parameters.map(\.name)
        var values: [String: String] = [:]
        for option in options {
            let parts = option.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard parts.count == 2, !parts[1].isEmpty else {
                throw CommandFailure(.usage, "--with is NAME=VALUE, found \"\(LogText.clean(option))\"")
            }
            guard names.contains(parts[0]) else {
                let hint = names.isEmpty ? "; it has none" : Suggestion.hint(for: parts[0], in: names)
                let fault = "the preset \(preset.name) has no parameter \"\(LogText.clean(parts[0]))\""
                throw CommandFailure(.usage, fault + hint)
            }
            values[parts[0]] = parts[1]
        }
        for parameter in preset.parameters where parameter.defaultValue == nil && values[parameter.name] == nil {
            guard isInteractive else {
                let example = "--with \(parameter.name)=\(parameter.example)"
                throw CommandFailure(.usage, "the preset \(preset.name) needs \"\(parameter.name)\": add \(example)")
            }
            Console.writeError("\(parameter.what), for example \(parameter.example): ")
            let answer = (readLine() ?? "").filter { !$0.isWhitespace }
            guard !answer.isEmpty else { throw CommandFailure(.failed, "nothing was changed") }
            values[parameter.name] = answer
        }
        return values
    }
}
