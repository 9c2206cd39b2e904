import GatewayCore
import GatewayFiles

/// Where the secrets of a preset come from: what a person says to `add` and `init`.
///
///     env:NAME    file:PATH    systemd:NAME    -    (each also as VARIABLE=…)
struct PresetSources: Sendable {
    private enum Choice: Sendable {
        case source(PresetSecret.Source)
        /// Pasted on the terminal, or read from standard input.
        case pasted

        init?(_ text: String) {
            guard text != "-" else {
                self = .pasted
                return
            }
            let parts = text.split(separator: ":", maxSplits: 1).map(String.init)
            guard parts.count == 2 else { return nil }
            switch parts[0] {
            case "env": self = .source(.environment(parts[1]))
            case "file": self = .source(.file(parts[1]))
            case "systemd": self = .source(.systemd(parts[1]))
            default: return nil
            }
        }
    }

    /// By the variable that the preset would read.
    private let choices: [String: Choice]
    private let needs: [Preset.Need]

    /// - Parameter options: What `--secret` says, each.
    init(_ options: [String], for needs: [Preset.Need]) throws(CommandFailure) {
        let variables = needs.map(\.variable)
        var choices: [String: Choice] = [:]
        for option in options {
            let parts = option.split(separator: "=", maxSplits: 1).map(String.init)
            let isNamed = parts.count == 2 && !parts[0].contains(":")
            guard let choice = Choice(isNamed ? parts[1] : option) else {
                // The option may hold the secret itself.
                let advice = "env:NAME, file:PATH, systemd:NAME or - (to paste it), never a secret itself"
                throw CommandFailure(.usage, "--secret is \(advice)")
            }
            guard let variable = isNamed ? parts[0] : variables.count == 1 ? variables.first : nil else {
                let names = variables.map { "\($0)=…" }.joined(separator: ", ")
                throw CommandFailure(
                    .usage,
                    variables.isEmpty ? "the preset needs no secret" : "say which secret: \(names)"
                )
            }
            guard variables.contains(variable) else {
                let hint = Suggestion.hint(for: variable, in: variables)
                throw CommandFailure(.usage, "the preset has no secret \"\(LogText.clean(variable))\"\(hint)")
            }
            choices[variable] = choice
        }
        self.choices = choices
        self.needs = needs
    }

    /// Asks for what the command line does not say, where there is a terminal; puts away what is pasted.
    ///
    /// - Parameters:
    ///   - name: Of the credential.
    ///   - files: Take what is pasted.
    /// - Returns: Those that nobody names are read from their variable.
    func secrets(asks: Bool, as name: String, files: inout SecretFiles) throws(CommandFailure) -> [PresetSecret] {
        var secrets: [PresetSecret] = []
        for need in needs {
            let source = try source(of: need, asks: asks, as: name, files: &files)
            secrets.append(PresetSecret(need: need, source: source))
        }
        return secrets
    }

    private func source(
        of need: Preset.Need,
        asks: Bool,
        as name: String,
        files: inout SecretFiles
    ) throws(CommandFailure) -> PresetSecret.Source {
        let choice = choices[need.variable]
        if case .source(let source) = choice { return source }
        let isOffered = choice == nil && asks && Console.environment(need.variable) == nil
        guard choice != nil || isOffered, let secret = try paste(need, isOptional: isOffered) else {
            return .environment(need.variable)
        }
        return .file(try files.add(secret, as: "\(name).\(need.variable)"))
    }

    private func paste(_ need: Preset.Need, isOptional: Bool) throws(CommandFailure) -> Secret? {
        let page = need.page.map { " (\($0))" } ?? ""
        if Console.isInputTerminal { Console.writeError("\(need.variable): \(need.text)\(page)\n") }
        let prompt = isOptional ? "Paste it, or press Enter to set the variable yourself: " : "Paste it: "
        let bytes = try SecretInput.read(nil, asking: prompt)
        let text = String(decoding: bytes, as: UTF8.self).trimmed
        guard !text.isEmpty else {
            guard isOptional else { throw CommandFailure(.failed, "nothing was pasted; nothing was changed") }
            return nil
        }
        return Secret(text)
    }
}

extension String {
    fileprivate var trimmed: String {
        var text = Substring(self)
        while text.last?.isWhitespace == true { text.removeLast() }
        while text.first?.isWhitespace == true { text.removeFirst() }
        return String(text)
    }
}
