package import GatewayHTTP

/// A service that is known by name: its hosts, how it authenticates, and what secret to bring.
///
/// `preset: NAME` in a credential or a route stands for the keys that are here (``PresetExpansion``).
package struct Preset: Hashable, Sendable {
    /// A word in the texts of the preset that the configuration fills in, written `${NAME}` there.
    package struct Parameter: Hashable, Encodable, Sendable {
        package let name: String
        /// What it is, for people.
        package let what: String
        package let example: String
        /// nil: the configuration has to say it.
        package let defaultValue: String?

        private enum CodingKeys: String, CodingKey { case name, what, example, defaultValue = "default" }
    }

    /// An environment variable that the preset reads a secret from, unless the configuration names another source.
    package struct RequiredSecret: Hashable, Encodable, Sendable {
        package let variable: String
        /// What kind of secret, for people.
        package let what: String
        /// The page where a person gets it.
        package let `where`: String?

        package init(variable: String, what: String, where: String?) {
            (self.variable, self.what, self.where) = (variable, what, `where`)
        }
    }

    /// An environment variable that SDKs and command-line tools of the service read.
    package struct ToolVariable: Hashable, Encodable, Sendable {
        /// The gateway finds a token behind a prefix of this length.
        package static let longestPrefix = 32

        /// When `exec` sets the variable.
        package enum Occasion: String, Encodable, Sendable {
            case always
            /// Only if it is already set, because another variable is the usual one.
            case whenSet = "when_set"
            /// Only for a program that does not use the proxy of the environment.
            case withoutProxy = "without_proxy"
        }

        package let name: String
        /// What they want to see at the beginning of a key; empty where they take any.
        package let prefix: String
        /// For a variable with the URL of the service: what follows the origin; `/` for nothing. nil for one with a key.
        package let basePath: String?
        package let occasion: Occasion
        /// The host, such as `github.com`, for which a tool hands the key to git as its credential helper.
        package let gitHost: String?

        private enum CodingKeys: String, CodingKey {
            case name, prefix, occasion
            case basePath = "base_path"
            case gitHost = "git_host"
        }

        package init(
            name: String,
            prefix: String = "",
            basePath: String? = nil,
            occasion: Occasion = .always,
            gitHost: String? = nil
        ) {
            self.name = name
            self.prefix = prefix
            self.basePath = basePath
            self.occasion = occasion
            self.gitHost = gitHost
        }
    }

    /// A route of the service. The first one is what `preset: NAME` means in a route.
    package struct Route: Hashable, Sendable {
        package let name: String
        package let node: ConfigNode
    }

    package let name: String
    package let title: String
    /// Other words that people look for it with.
    package let words: [String]
    /// The page that the preset was made from.
    package let docs: String
    /// When that page was read, as `2026-11-26`; nil when it was not.
    package let read: String?
    package let parameters: [Parameter]
    package let secrets: [RequiredSecret]
    /// What `authgateway exec` sets where the first route is configured.
    package let tools: [ToolVariable]
    /// What a person should know before using it.
    package let note: String?
    /// The service's MCP server, for `add mcp`, where it has a login; one that takes a key is a preset of its own, `NAME-mcp`.
    package let mcp: AuthorityURL?
    package let credential: ConfigNode
    package let routes: [Route]

    /// The strategy of the credential.
    package var strategy: String? {
        guard case .mapping(let entries) = credential.content,
            case .scalar(let name)? = entries.first(where: { $0.key == "strategy" })?.value.content
        else { return nil }
        return name.text
    }

    /// The path that shows whose credential it is, where the preset knows one that is asked with GET.
    package var whoami: String? {
        guard case .mapping(let entries)? = routes.first?.node.content else { return nil }
        switch entries.first(where: { $0.key == "whoami" })?.value.content {
        case .scalar(let path)?: return path.text
        case .mapping(let keys)?:
            guard !keys.contains(where: { $0.key == "method" }),
                case .scalar(let path)? = keys.first(where: { $0.key == "path" })?.value.content
            else { return nil }
            return path.text
        case .sequence?, nil: return nil
        }
    }

    /// Whether the first route leads to this origin, such as `https://api.example.com`.
    package func leads(to origin: String) -> Bool {
        guard case .mapping(let entries)? = routes.first?.node.content,
            case .scalar(let upstream)? = entries.first(where: { $0.key == "upstream" })?.value.content
        else { return false }
        let defaults = parameters.compactMap { parameter in parameter.defaultValue.map { (parameter.name, $0) } }
        return PresetTemplate.leads(upstream.text, to: origin, defaults: Dictionary(uniqueKeysWithValues: defaults))
    }

    /// - Parameter name: nil for the first route.
    package func route(_ name: String?) -> Route? {
        guard let name else { return routes.first }
        return routes.first { $0.name == name }
    }
}

/// The presets that a configuration can name.
package struct PresetLibrary: Sendable {
    private let readNames: @Sendable () -> [String]
    private let readPreset: @Sendable (String) -> Preset?

    package init(_ presets: [Preset] = []) {
        let named = Dictionary(presets.map { ($0.name, $0) }) { first, _ in first }
        self.init(names: { Array(named.keys) }) { named[$0] }
    }

    /// Presets that are read when they are asked for.
    ///
    /// - Parameters:
    ///   - names: The names of all presets, each once.
    ///   - preset: The preset of a name; nil where there is none.
    package init(names: @escaping @Sendable () -> [String], preset: @escaping @Sendable (String) -> Preset?) {
        readNames = names
        readPreset = preset
    }

    package var names: [String] { readNames().sorted() }
    /// All, in the order of their names.
    package var presets: [Preset] { names.compactMap(readPreset) }

    package subscript(name: String) -> Preset? { readPreset(name) }

    /// Those of `other` replace presets of the same name.
    package func overridden(by other: Self) -> Self {
        Self(names: { Array(Set(readNames()).union(other.readNames())) }) { other[$0] ?? self[$0] }
    }

    /// The names that `add mcp` takes.
    package var mcpServers: [String] {
        presets.compactMap { preset in
            guard preset.mcp == nil else { return preset.name }
            return preset.name.hasSuffix("-mcp") ? String(preset.name.dropLast(4)) : nil
        }
    }

    /// The presets that have every word of `search` in their name, title or other words.
    package func matches(_ search: String) -> [Preset] {
        let words = search.lowercased().split(separator: " ")
        return presets.filter { preset in
            let text = ([preset.name, preset.title] + preset.words).joined(separator: " ").lowercased()
            return words.allSatisfy { text.contains($0) }
        }
    }
}

extension Preset {
    /// What `authgateway presets show` prints.
    package var text: String {
        var text = "\(name): \(title)\n\n"
        text += "  documentation:  \(docs)\n"
        text += "  read:           \(read ?? "unverified")\n"
        if let note { text += "  note:           \(note)\n" }
        if let mcp { text += "  MCP server:     \(mcp) (\(GatewayCommand.line("add", "mcp", name)))\n" }
        for secret in secrets {
            text += "\n  \(secret.variable)\n    \(secret.what)\n"
            if let page = secret.where { text += "    \(page)\n" }
        }
        for parameter in parameters {
            let defaultValue = parameter.defaultValue.map { " (default: \($0))" } ?? ""
            text +=
                "\n  with.\(parameter.name)\(defaultValue)\n    \(parameter.what), for example \(parameter.example)\n"
        }
        if !tools.isEmpty { text += "\n  exec sets:      \(tools.map(\.name).joined(separator: ", "))\n" }
        let examples = parameters.filter { $0.defaultValue == nil }.map { ($0.name, $0.example) }
        let entries = PresetEntries(self, as: name, parameters: Dictionary(uniqueKeysWithValues: examples))
        let lines = entries.text.split(separator: "\n").map { "    \($0)\n" }.joined()
        return text + "\n  In gateway.yaml, as `\(GatewayCommand.line("add", name))` writes it:\n\n" + lines
    }
}

/// As `authgateway presets list --json` prints it.
extension Preset: Encodable {
    private enum CodingKeys: String, CodingKey {
        case name, title, words, docs, read, note, parameters, secrets, tools, routes, strategy, mcp
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(name, forKey: .name)
        try container.encode(title, forKey: .title)
        try container.encode(words, forKey: .words)
        try container.encode(docs, forKey: .docs)
        try container.encode(read ?? "unverified", forKey: .read)
        try container.encodeIfPresent(note, forKey: .note)
        try container.encodeIfPresent(strategy, forKey: .strategy)
        try container.encodeIfPresent(mcp?.text, forKey: .mcp)
        try container.encode(parameters, forKey: .parameters)
        try container.encode(secrets, forKey: .secrets)
        try container.encode(tools, forKey: .tools)
        try container.encode(routes.map(\.name), forKey: .routes)
    }
}

/// What `authgateway add` writes for a preset: entries of `credentials` and `routes`, as lines of YAML.
package struct PresetEntries: Equatable, Sendable {
    package struct Entry: Equatable, Sendable {
        package let name: String
        /// Its value, without indentation.
        package let lines: [String]
    }

    package let credential: Entry
    package let routes: [Entry]

    init(credential: Entry, routes: [Entry]) {
        self.credential = credential
        self.routes = routes
    }

    /// - Parameters:
    ///   - name: The name of the credential and of the first route; the others get it with their own name behind it.
    ///   - parameters: Values of parameters; those without one are left to their defaults.
    ///   - sources: Where secrets come from, in YAML, by the variable that the preset would read.
    ///   - upstream: A server that stands in for that of the first route, such as one of one's own. The other routes are left out.
    package init(
        _ preset: Preset,
        as name: String,
        parameters: [String: String] = [:],
        sources: [String: String] = [:],
        upstream: String? = nil
    ) {
        let with = preset.parameters.compactMap { parameter in
            parameters[parameter.name].map { "\(parameter.name): \(YAMLScalar.literal($0))" }
        }
        let parameterLines = with.isEmpty ? [] : ["with: {\(with.joined(separator: ", "))}"]
        let secrets = preset.secretKeys.map { key in
            "\(key.name): \(sources[key.variable] ?? "{env: \(key.variable)}")"
        }
        credential = Entry(name: name, lines: ["preset: \(preset.name)"] + parameterLines + secrets)
        // No URL has `${`: a variable there is meant for the gateway that reads it.
        let own = upstream.map { ["upstream: \(YAMLScalar.text($0.replacing("$$", with: "$$$$")))"] } ?? []
        routes = preset.routes.prefix(upstream == nil ? preset.routes.count : 1).enumerated().map { index, route in
            let isFirst = index == 0
            let used = PresetTemplate.parameters(of: route.node)
            return Entry(
                name: isFirst ? name : "\(name)-\(route.name)",
                lines: ["preset: \(preset.name)\(isFirst ? "" : "/\(route.name)")"]
                    + (used.isEmpty ? [] : parameterLines) + own + ["auth: \(name)"]
            )
        }
    }

    /// The entries as they stand in a file.
    package var text: String {
        func lines(_ entry: Entry) -> [String] { ["  \(entry.name):"] + entry.lines.map { "    \($0)" } }
        let all = ["credentials:"] + lines(credential) + ["routes:"] + routes.flatMap(lines)
        return all.map { $0 + "\n" }.joined()
    }
}

extension Preset {
    /// The keys of the credential that read an environment variable.
    var secretKeys: [(name: String, variable: String)] {
        guard case .mapping(let entries) = credential.content else { return [] }
        return entries.compactMap { entry in
            guard case .mapping(let source) = entry.value.content, source.count == 1, source[0].key == "env",
                case .scalar(let variable) = source[0].value.content
            else { return nil }
            return (entry.key, variable.text)
        }
    }
}
