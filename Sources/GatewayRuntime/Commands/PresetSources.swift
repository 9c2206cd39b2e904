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
    private let required: [Preset.RequiredSecret]

    /// - Parameter options: What `--secret` says, each.
    init(_ options: [String], for required: [Preset.RequiredSecret]) throws(CommandFailure) {
        let variables = required.map(\.variable)
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
        self.required = required
    }

    /// Asks for what the command line does not say, where there is a terminal; puts away what is pasted.
    ///
    /// - Parameters:
    ///   - name: The name of the credential.
    ///   - files: Take what is pasted.
    /// - Returns: A secret without a source is read from its variable.
    func secrets(isInteractive: Bool, as name: String, files: inout SecretFiles) throws(CommandFailure)
        -> [PresetSecret]
    {
        var secrets: [PresetSecret] = []
        for secret in required {
            let source = try source(of: secret, isInteractive: isInteractive, as: name, files: &files)
            secrets.append(PresetSecret(required: secret, source: source))
        }
        return secrets
    }

    private func source(
        of secret: Preset.RequiredSecret,
        isInteractive: Bool,
        as name: String,
        files: inout SecretFiles
    ) throws(CommandFailure) -> PresetSecret.Source {
        let choice = choices[secret.variable]
        if case .source(let source) = choice { return source }
        let isOffered = choice == nil && isInteractive && Console.environment(secret.variable) == nil
        guard choice != nil || isOffered, let pasted = try paste(secret, isOptional: isOffered) else {
            return .environment(secret.variable)
        }
        return .file(try files.add(pasted, as: "\(name).\(secret.variable)"))
    }

    private func paste(_ secret: Preset.RequiredSecret, isOptional: Bool) throws(CommandFailure) -> Secret? {
        let page = secret.where.map { " (\($0))" } ?? ""
        if Console.isInputTerminal { Console.writeError("\(secret.variable): \(secret.what)\(page)\n") }
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
