/// What `authgateway add` writes for a preset: entries of `credentials` and `routes`, as lines of YAML.
package struct PresetEntries: Equatable, Sendable {
    package struct Entry: Equatable, Sendable {
        package let name: String
        /// Of its value, without indentation.
        package let lines: [String]
    }

    package let credential: Entry
    package let routes: [Entry]

    init(credential: Entry, routes: [Entry]) {
        self.credential = credential
        self.routes = routes
    }

    /// - Parameters:
    ///   - name: Of the credential and of the first route; the others get it with their own name behind it.
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
