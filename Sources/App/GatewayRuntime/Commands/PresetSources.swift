import GatewayCore
import GatewayFiles

/// Where the secrets of a preset come from: what a person says to `add` and `init`.
///
///     env:NAME    file:PATH    systemd:NAME    -    (each also as VARIABLE=…)
struct PresetSources: Sendable {
    enum Source: Equatable, Sendable {
        case environment(String)
        case file(String)
        case systemd(String)
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
            case "env": self = .environment(parts[1])
            case "file": self = .file(parts[1])
            case "systemd": self = .systemd(parts[1])
            default: return nil
            }
        }
    }

    /// By the variable that the preset would read.
    let sources: [String: Source]

    /// - Parameter options: What `--secret` says, each.
    init(_ options: [String], for needs: [Preset.Need]) throws(CommandFailure) {
        let variables = needs.map(\.variable)
        var sources: [String: Source] = [:]
        for option in options {
            let parts = option.split(separator: "=", maxSplits: 1).map(String.init)
            let isNamed = parts.count == 2 && !parts[0].contains(":")
            guard let source = Source(isNamed ? parts[1] : option) else {
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
            sources[variable] = source
        }
        self.sources = sources
    }

    /// Asks for what the command line does not say, where there is a terminal; puts away what is pasted.
    ///
    /// - Parameters:
    ///   - name: Of the credential.
    ///   - files: Take what is pasted.
    /// - Returns: The sources as YAML, by variable; those without one are read from the variable itself.
    func yaml(for needs: [Preset.Need], asks: Bool, as name: String, files: inout SecretFiles) throws(CommandFailure)
        -> [String: String]
    {
        var result: [String: String] = [:]
        for need in needs {
            var source = sources[need.variable]
            if source == nil, asks, Console.environment(need.variable) == nil { source = .pasted }
            switch source {
            case nil: continue
            case .environment(let name): result[need.variable] = "{env: \(YAMLScalar.text(name))}"
            case .file(let path): result[need.variable] = "{file: \(YAMLScalar.text(path))}"
            case .systemd(let name): result[need.variable] = "{systemd_credential: \(YAMLScalar.text(name))}"
            case .pasted:
                let isAsked = sources[need.variable] == nil
                guard let secret = try paste(need, isOptional: isAsked) else { continue }
                let path = try files.add(secret, as: "\(name).\(need.variable)")
                result[need.variable] = "{file: \(YAMLScalar.text(path))}"
            }
        }
        return result
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
