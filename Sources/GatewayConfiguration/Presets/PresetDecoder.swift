import GatewayHTTP

/// Reads presets: a mapping of names to what ``Preset`` holds.
package enum PresetDecoder {
    /// - Returns: Those without a mistake; the mistakes are reported.
    package static func decode(_ root: ConfigNode, context: ConfigContext) -> [Preset] {
        guard let fields = ConfigFields(root, path: .root, context: context) else { return [] }
        return fields.named().compactMap { name, entry in
            guard let own = fields.named(entry, path: fields.path.appending(name)) else { return nil }
            defer { own.refuseUnknownKeys() }
            return preset(own, name: name)
        }
    }

    private static func preset(_ fields: ConfigFields, name: String) -> Preset? {
        let before = fields.context.errorCount
        let title = fields.requiredString("title")
        let words = fields.strings("words") ?? []
        let docs = fields.requiredString("docs")
        let read = read(fields)
        let parameters = (fields.fields("parameters")).map(parameters) ?? []
        let secrets = (fields.fields("secrets")).map(secrets) ?? []
        let tools = (fields.fields("tools")).map(tools) ?? []
        let note = fields.string("note")
        let mcp = mcp(fields)
        let credential = mapping("credential", needing: "strategy", of: fields)
        let routes = (fields.fields("routes")).map(routes) ?? []
        if routes.isEmpty { fields.missing("routes") }
        guard let title, let docs, let credential, fields.context.errorCount == before else { return nil }
        let named = ([credential] + routes.map(\.node)).reduce(into: Set()) {
            $0.formUnion(PresetTemplate.parameters(of: $1))
        }
        let declared = Set(parameters.map(\.name))
        for name in named.symmetricDifference(declared).sorted() {
            let fault = declared.contains(name) ? "nothing uses the parameter" : "no parameter has the name"
            fields.error("parameters", "\(fault) \"\(name)\"")
        }
        guard named == declared else { return nil }
        return Preset(
            name: name,
            title: title,
            words: words,
            docs: docs,
            read: read,
            parameters: parameters,
            secrets: secrets,
            tools: tools,
            note: note,
            mcp: mcp,
            credential: credential,
            routes: routes
        )
    }

    /// - Returns: nil for `unverified`.
    private static func read(_ fields: ConfigFields) -> String? {
        guard let text = fields.requiredString("read"), text != "unverified" else { return nil }
        let isDate = text.utf8.count == 10 && UnixTime(rfc3339: "\(text)T00:00:00Z") != nil
        if !isDate { fields.error("read", "expected a date such as 2026-11-26, or unverified") }
        return text
    }

    private static func mcp(_ fields: ConfigFields) -> AuthorityURL? {
        guard let text = fields.string("mcp") else { return nil }
        do throws(AuthorityURL.Refusal) {
            return try AuthorityURL(text)
        } catch {
            fields.error("mcp", error.message)
            return nil
        }
    }

    private static func parameters(_ fields: ConfigFields) -> [Preset.Parameter] {
        fields.named().compactMap { name, entry in
            guard let own = fields.named(entry, path: fields.path.appending(name)) else { return nil }
            defer { own.refuseUnknownKeys() }
            let defaultValue = own.string("default")
            guard let what = own.requiredString("what"), let example = own.requiredString("example") else { return nil }
            return Preset.Parameter(name: name, what: what, example: example, defaultValue: defaultValue)
        }
    }

    private static func secrets(_ fields: ConfigFields) -> [Preset.RequiredSecret] {
        fields.named().compactMap { name, entry in
            guard let own = fields.named(entry, path: fields.path.appending(name)) else { return nil }
            defer { own.refuseUnknownKeys() }
            let page = own.string("where")
            return own.requiredString("what").map { Preset.RequiredSecret(variable: name, what: $0, where: page) }
        }
    }

    private static func tools(_ fields: ConfigFields) -> [Preset.ToolVariable] {
        let longestPrefix = Preset.ToolVariable.longestPrefix
        return fields.named().compactMap { name, entry in
            guard let own = fields.named(entry, path: fields.path.appending(name)) else { return nil }
            defer { own.refuseUnknownKeys() }
            let (prefix, path) = (own.string("prefix") ?? "", own.string("base_path"))
            if prefix.utf8.count > longestPrefix || prefix.utf8.contains(where: { $0 <= 0x20 || $0 >= 0x7F }) {
                own.error("prefix", "expected at most \(longestPrefix) visible ASCII characters")
            }
            if let path, !path.hasPrefix("/") { own.error("base_path", "expected a path, such as /v1") }
            let (whenSet, needed) = (own.bool("when_set") ?? false, own.bool("needed") ?? false)
            if whenSet, path != nil { own.error("when_set", "cannot be combined with base_path") }
            if needed, path == nil { own.error("needed", "needs base_path") }
            let gitHost = own.string("git_host")
            if let gitHost, Origin(scheme: .https, authority: gitHost)?.host != gitHost {
                own.error("git_host", "expected a host, such as github.com")
            }
            return Preset.ToolVariable(
                name: name,
                prefix: prefix,
                basePath: path,
                occasion: whenSet ? .whenSet : path == nil || needed ? .always : .withoutProxy,
                gitHost: gitHost
            )
        }
    }

    private static func routes(_ fields: ConfigFields) -> [Preset.Route] {
        fields.named().compactMap { name, _ in
            mapping(name, needing: "upstream", of: fields).map { Preset.Route(name: name, node: $0) }
        }
    }

    /// A mapping that is decoded where the preset is used.
    private static func mapping(_ key: String, needing needed: String, of fields: ConfigFields) -> ConfigNode? {
        guard let own = fields.fields(key) else {
            fields.missing(key)
            return nil
        }
        guard own.has(needed) else {
            own.missing(needed)
            return nil
        }
        return fields.node(key)
    }
}
