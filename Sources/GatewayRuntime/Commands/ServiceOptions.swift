import GatewayCore

/// How a person wants a service to be written: what `add` and `init` take behind its name.
package struct ServiceOptions: Sendable {
    private let name: String?
    private let parameters: [String]
    private let secrets: [String]
    let upstream: String?

    /// - Parameters:
    ///   - name: Of the credential and the first route; nil takes that of the service.
    ///   - parameters: `NAME=VALUE`, each.
    ///   - secrets: Where secrets come from (``PresetSources``).
    ///   - upstream: The URL of a server that stands in for the preset's.
    package init(name: String?, parameters: [String], secrets: [String], upstream: String?) {
        self.name = name
        self.parameters = parameters
        self.secrets = secrets
        self.upstream = upstream
    }

    /// The name of the credential and the first route.
    func name(or standard: String) throws(CommandFailure) -> String {
        let name = name ?? standard
        guard ConfigName.isValid(name) else { throw CommandFailure(.usage, ConfigName.rule) }
        return name
    }

    /// What a preset writes.
    ///
    /// - Parameters:
    ///   - values: Of its parameters (``values(of:mayAsk:)``).
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
        try PresetParameters.values(parameters, of: preset, isInteractive: mayAsk && Self.canAsk)
    }

    /// Where secrets come from.
    ///
    /// - Parameters:
    ///   - name: Of the credential.
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
