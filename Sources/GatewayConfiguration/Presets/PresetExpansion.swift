package import GatewayHTTP

/// Replaces `preset: NAME` with the keys of the preset, before a configuration is decoded.
///
/// Keys that the configuration has itself stay. What the preset adds carries the place of its name, so problems with it are
/// reported there. `preset` and `with` remain, for the decoders to know.
package struct PresetExpansion {
    private let library: PresetLibrary
    private let context: ConfigContext

    /// - Returns: The document that says itself what its presets say, and what is wrong with them.
    package static func expand(
        _ document: ConfigDocument,
        with library: PresetLibrary,
        secrets: any SecretSource
    ) -> (document: ConfigDocument, diagnostics: [ConfigDiagnostic]) {
        let context = ConfigContext(document: document, secrets: secrets)
        var root = document.root
        Self(library: library, context: context).apply(to: &root)
        return (ConfigDocument(files: document.files, root: root, size: document.size), context.diagnostics)
    }

    /// Where presets are named that there are: these words are no secrets, whatever they stand for.
    package static func names(in node: ConfigNode, of library: PresetLibrary) -> Set<SourceSpan> {
        switch node.content {
        case .scalar: []
        case .sequence(let nodes): nodes.reduce(into: []) { $0.formUnion(names(in: $1, of: library)) }
        case .mapping(let entries):
            entries.reduce(into: []) { spans, entry in
                spans.formUnion(names(in: entry.value, of: library))
                guard entry.key == "preset", case .scalar(let scalar) = entry.value.content else { return }
                if library[PresetReference(scalar.text).preset] != nil { spans.insert(entry.value.span) }
            }
        }
    }

    private func apply(to root: inout ConfigNode) {
        change("credentials", of: &root, path: .root) { credentials, path in
            changeEach(of: &credentials, path: path, expandCredential)
        }
        change("routes", of: &root, path: .root) { routes, path in
            changeEach(of: &routes, path: path, expandRoute)
        }
    }

    // MARK: One mapping

    private func expandCredential(_ node: inout ConfigNode, path: ConfigPath) {
        let needed = { (preset: Preset, _: PresetReference) in PresetTemplate.parameters(of: preset.credential) }
        guard let use = use(in: node, path: path, needing: needed) else { return }
        guard use.reference.route == nil else {
            let advice = "a credential takes the preset itself: \"\(use.preset.name)\""
            return context.error(advice, at: use.span, path: path.appending("preset"))
        }
        add(use.preset.credential, to: &node, use, path: path)
    }

    private func expandRoute(_ node: inout ConfigNode, path: ConfigPath) {
        let takesCredential = takesCredential(node)
        func needed(_ preset: Preset, _ reference: PresetReference) -> Set<String> {
            guard let route = preset.route(reference.route) else { return [] }
            let parameters = PresetTemplate.parameters(of: route.node)
            return takesCredential ? parameters.union(PresetTemplate.parameters(of: preset.credential)) : parameters
        }
        guard let use = use(in: node, path: path, needing: needed) else {
            // The credential alone may come from a preset.
            return change("auth", of: &node, path: path, expandCredential)
        }
        guard let route = use.preset.route(use.reference.route) else {
            let names = use.preset.routes.dropFirst().map { "\"\(use.preset.name)/\($0.name)\"" }
            let known = names.isEmpty ? "it has only one" : "it has \(names.joined(separator: ", "))"
            return context.error("the preset has no such route; \(known)", at: use.span, path: path.appending("preset"))
        }
        add(route.node, to: &node, use, path: path)
        guard let auth = node.entry("auth"), !auth.value.isNull else {
            return node.set("auth", to: filled(use.preset.credential, use), at: use.span)
        }
        guard takesCredential else { return change("auth", of: &node, path: path, expandCredential) }
        change("auth", of: &node, path: path) { own, path in add(use.preset.credential, to: &own, use, path: path) }
    }

    /// Whether the preset of a route says how it authenticates: where the route does not, or completes what the preset says.
    private func takesCredential(_ route: ConfigNode) -> Bool {
        guard let auth = route.entry("auth"), !auth.value.isNull else { return true }
        guard case .mapping = auth.value.content else { return false }
        return !auth.value.has(["strategy", "credential", "preset"])
    }

    private func filled(_ template: ConfigNode, _ use: Use) -> ConfigNode {
        PresetTemplate(values: use.values, span: use.span).filled(template)
    }

    private func add(_ template: ConfigNode, to node: inout ConfigNode, _ use: Use, path: ConfigPath) {
        guard case .mapping(let added) = filled(template, use).content, case .mapping(var entries) = node.content else {
            return
        }
        for entry in added {
            guard let index = entries.firstIndex(where: { $0.key == entry.key }) else {
                entries.append(entry)
                continue
            }
            guard entry.key == "strategy" else { continue }
            let advice = "the preset already sets it; remove this, or \"preset\""
            context.error(advice, at: entries[index].keySpan, path: path.appending("strategy"))
            // What the other keys mean is judged by the preset's strategy.
            entries[index] = entry
        }
        node.content = .mapping(entries)
    }

    // MARK: The preset

    private struct Use {
        let preset: Preset
        let reference: PresetReference
        let values: [String: ConfigNode.Scalar]
        let span: SourceSpan
    }

    /// - Parameter needed: The parameters that have to be known.
    /// - Returns: nil without a preset, and where it cannot be used, which is reported.
    private func use(
        in node: ConfigNode,
        path: ConfigPath,
        needing needed: (Preset, PresetReference) -> Set<String>
    ) -> Use? {
        guard let entry = node.entry("preset"), !entry.value.isNull else { return nil }
        let place = path.appending("preset")
        guard case .scalar(let scalar) = entry.value.content else {
            context.error(
                "expected the name of a preset, found \(entry.value.kindName)",
                at: entry.value.span,
                path: place
            )
            return nil
        }
        let reference = PresetReference(scalar.text)
        guard let preset = library[reference.preset] else {
            let fault = context.unknownName(scalar, of: "preset", at: entry.value.span)
            let hint = Suggestion.hint(for: reference.preset, in: library.names)
            let advice = hint.isEmpty ? "; `authgateway presets` lists them" : hint
            context.error(fault + advice, at: entry.value.span, path: place)
            return nil
        }
        let span = entry.value.span
        let names = needed(preset, reference)
        let parameters = PresetValues(preset: preset, needed: names, span: span, context: context)
        guard let values = parameters.values(in: node, path: path) else { return nil }
        return Use(preset: preset, reference: reference, values: values, span: span)
    }

    // MARK: The tree

    private func change(
        _ key: String,
        of node: inout ConfigNode,
        path: ConfigPath,
        _ body: (inout ConfigNode, ConfigPath) -> Void
    ) {
        guard case .mapping(var entries) = node.content, let index = entries.firstIndex(where: { $0.key == key }) else {
            return
        }
        body(&entries[index].value, path.appending(key))
        node.content = .mapping(entries)
    }

    private func changeEach(
        of node: inout ConfigNode,
        path: ConfigPath,
        _ body: (inout ConfigNode, ConfigPath) -> Void
    ) {
        guard case .mapping(var entries) = node.content else { return }
        for index in entries.indices { body(&entries[index].value, path.appending(entries[index].key)) }
        node.content = .mapping(entries)
    }
}

extension ConfigNode {
    fileprivate func has(_ keys: [String]) -> Bool { keys.contains { entry($0) != nil } }

    fileprivate mutating func set(_ key: String, to value: ConfigNode, at span: SourceSpan) {
        guard case .mapping(var entries) = content else { return }
        entries.removeAll { $0.key == key }
        entries.append(Entry(key: key, keySpan: span, value: value))
        content = .mapping(entries)
    }
}

/// What `preset:` names: `box`, or one of its routes, `box/upload`.
struct PresetReference: Hashable {
    let preset: String
    let route: String?

    init(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        preset = String(parts[0])
        route = parts.count > 1 ? String(parts[1]) : nil
    }
}

extension ConfigFields {
    /// Knows the keys that ``PresetExpansion`` has replaced.
    ///
    /// - Returns: Whether a preset is named.
    @discardableResult
    package func readPreset() -> Bool {
        explain(PresetExpansion.keys)
        _ = fields("with")?.chosenNames()
        context.recorder?.note(.string, for: "preset", of: path)
        return has("preset")
    }

    /// The keys of the preset are not there; ``PresetExpansion`` has said why.
    package func noteUnusedPreset() {
        let path = path.appending("preset")
        context.noteUnusedPreset(ConfigDiagnostic(.error, "the preset cannot be used", at: span, path: path))
    }
}

extension PresetExpansion {
    fileprivate static let keys = Keys {
        $0("preset", example: "github")
            .means(
                "A service that the gateway knows by name. It provides the keys that are not written here. "
                    + "authgateway presets lists them."
            )
        $0("with", type: "a mapping", example: "{domain: example.okta.com}")
            .means("The parameters of the preset; authgateway presets show NAME lists them.")
    }
}
