import ArgumentParser
import GatewayApp
import GatewayConfiguration
import GatewayHTTP

/// How a service is written: what `add` and `init` take behind its name.
struct ServiceArguments: ParsableArguments {
    @Argument(help: "The name of the credential and the route; that of the preset if left out.")
    var name: String?

    @Option(name: .customLong("with"), help: ArgumentHelp("A parameter of the preset.", valueName: "name=value"))
    var parameters: [String] = []

    @Option(
        name: .customLong("secret"),
        help: ArgumentHelp(
            "Where a secret comes from: [VARIABLE=]env:NAME, file:PATH, systemd:NAME or -.",
            valueName: "source"
        )
    )
    var secrets: [String] = []

    @Option(
        help: ArgumentHelp(
            "Your own server instead of the service's, such as a test server.",
            valueName: "url"
        )
    )
    var upstream: String?

    /// The name of the credential and the first route.
    func name(or standard: String) throws(CommandFailure) -> String {
        let name = name ?? standard
        guard ConfigName.isValid(name) else { throw CommandFailure(.usage, ConfigName.rule) }
        return name
    }

    /// What a preset writes.
    ///
    /// - Parameters:
    ///   - values: The values of its parameters (``values(of:mayAsk:)``).
    ///   - secrets: Where its secrets come from (``secrets(of:for:mayAsk:files:)``).
    func entries(
        of preset: Preset,
        values: [String: String],
        secrets: [PresetSecret]
    ) throws(CommandFailure) -> PresetEntries {
        let name = try name(or: preset.name)
        return PresetEntries(preset, as: name, parameters: values, sources: secrets.yaml, upstream: upstream)
    }

    /// - Parameter mayAsk: On a terminal, for what the command line does not say.
    func values(of preset: Preset, mayAsk: Bool) throws(CommandFailure) -> [String: String] {
        let names = preset.parameters.map(\.name)
        var values: [String: String] = [:]
        for option in parameters {
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
            guard mayAsk, Self.canAsk else {
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

    /// Where secrets come from.
    ///
    /// - Parameters:
    ///   - name: The name of the credential.
    ///   - mayAsk: On a terminal, for what the command line does not say.
    ///   - files: Take secrets that are pasted.
    func secrets(
        of needed: [Preset.RequiredSecret],
        for name: String,
        mayAsk: Bool,
        files: inout SecretFiles
    ) throws(CommandFailure) -> [PresetSecret] {
        try PresetSources(secrets, for: needed).secrets(isInteractive: mayAsk && Self.canAsk, as: name, files: &files)
    }

    /// There is a terminal, to ask and to answer.
    static var canAsk: Bool { Console.isInputTerminal && Console.isErrorTerminal }
}

/// Where the secrets of a preset come from: what a person says to `add` and `init`.
///
///     env:NAME    file:PATH    systemd:NAME    -    (each also as VARIABLE=…)
private struct PresetSources: Sendable {
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
