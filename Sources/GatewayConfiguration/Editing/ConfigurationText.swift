/// The text of one configuration file. An edit changes the lines of one entry and keeps every other byte.
///
/// Pure: it reads and writes no file. Each edit is parsed again. It is refused when anything else would then mean
/// something else than before.
///
///     var text = try ConfigurationText(bytes)
///     try text.append(.init("github", value: ["strategy: bearer", "token: {env: GITHUB_TOKEN}"]), to: "credentials")
///     try text.remove("box", from: "routes")
///     write(text.bytes)
package struct ConfigurationText: Sendable {
    /// A named entry of a section, such as one route.
    package struct Entry: Hashable, Sendable {
        package let name: String
        /// Lines of YAML, indented by steps of two, that begin without indentation. A mapping stands below its name.
        /// What fits one line stands beside it: `{preset: github}`.
        package let value: [String]
        /// Lines that stand above it, without the `# `.
        package let comment: [String]

        package init(_ name: String, value: [String], comment: [String] = []) {
            self.name = name
            self.value = value
            self.comment = comment
        }
    }

    var lines: TextLines
    private(set) var layout: YAMLLayout
    private var root: ConfigNode

    package init(_ bytes: [UInt8]) throws(ConfigurationEditError) {
        (root, layout) = try Self.parse(bytes)
        lines = TextLines(bytes)
    }

    package var bytes: [UInt8] { lines.bytes }

    /// The names of the entries of a section, in the order of the file; nil when it does not have it, or as no mapping.
    package func names(in section: String) -> [String]? {
        layout.root.entries?.first { $0.key == section }?.value.entries?.map(\.key)
    }

    /// Adds an entry behind those that the section has. Makes the section when there is none.
    ///
    /// - Parameter section: A key at the top whose value is a mapping, such as `credentials`.
    package mutating func append(_ entry: Entry, to section: String) throws(ConfigurationEditError) {
        let value = try entry.parsedValue()
        var appending = EntryAppending(lines: lines, layout: layout)
        try appending.append(entry, isMapping: value.isBlockMapping, to: section)
        try accept(appending.lines, expecting: root.appending(value.node, as: entry.name, to: section))
    }

    /// Removes an entry with the comments that are its own: those within it, and those directly above it.
    package mutating func remove(_ name: String, from section: String) throws(ConfigurationEditError) {
        var removal = EntryRemoval(lines: lines, layout: layout)
        try removal.remove(name, from: section)
        try accept(removal.lines, expecting: root.removing(name, from: section))
    }

    /// Writes another text as the value of a key of an entry, which is a scalar on one line so far.
    ///
    /// - Parameter text: Stays as it is: a `$` in it begins no variable.
    package mutating func set(
        _ key: String,
        of name: String,
        in section: String,
        to text: String
    ) throws(ConfigurationEditError) {
        let place = "\(section).\(name).\(key)"
        let entries = layout.root.entries?.first { $0.key == section }?.value.entries
        let keys = entries?.first { $0.key == name }?.value.entries
        guard let value = keys?.first(where: { $0.key == key })?.value else {
            throw ConfigurationEditError("there is no \(place) here")
        }
        guard case .scalar(isEmpty: false) = value.kind, value.anchor == nil, value.start.line == value.end.line else {
            let fault = "\(place) is not a scalar on one line; edit it by hand"
            throw ConfigurationEditError(fault, line: value.start.line)
        }
        let written = YAMLScalar.literal(text)
        guard let scalar = YAMLLoader().load(Array("x: \(written)".utf8)).root?.value(of: "x") else {
            throw ConfigurationEditError("\(place) cannot have this value")
        }
        var changed = lines
        let line = changed.lines[value.start.line - 1].content
        changed.lines[value.start.line - 1].content =
            line.columns(1..<value.start.column) + written + line.columns(from: value.end.column)
        try accept(changed, expecting: root.setting(key, of: name, in: section, to: scalar))
    }

    /// Takes the changed lines when they mean what they have to.
    mutating func accept(_ changed: TextLines, expecting expected: ConfigNode) throws(ConfigurationEditError) {
        let refusal = ConfigurationEditError("this edit would change more than it should; edit the file by hand")
        let parsed: (ConfigNode, YAMLLayout)
        do throws(ConfigurationEditError) {
            parsed = try Self.parse(changed.bytes)
        } catch {
            throw refusal
        }
        guard parsed.0.isSame(as: expected) else { throw refusal }
        (root, layout) = parsed
        lines = changed
    }

    /// Accepts an edit that changes nothing but the looks.
    mutating func acceptLooks(_ changed: TextLines) throws(ConfigurationEditError) {
        try accept(changed, expecting: root)
    }

    private static func parse(_ bytes: [UInt8]) throws(ConfigurationEditError) -> (ConfigNode, YAMLLayout) {
        let document = YAMLLoader().load(bytes)
        if let problem = document.diagnostics.first {
            throw ConfigurationEditError(problem.message, line: problem.span.line)
        }
        let hasMark = bytes.starts(with: [0xEF, 0xBB, 0xBF])
        guard let root = document.root, let layout = YAMLLayout(hasMark ? Array(bytes.dropFirst(3)) : bytes) else {
            throw ConfigurationEditError("cannot be read as YAML")
        }
        guard let entries = layout.root.entries, !layout.root.isFlow, !entries.isEmpty else {
            throw ConfigurationEditError("expected keys such as \"version: 1\", each on a line of its own")
        }
        return (root, layout)
    }
}

extension ConfigurationText.Entry {
    /// What its value means, alone.
    fileprivate func parsedValue() throws(ConfigurationEditError) -> (node: ConfigNode, isBlockMapping: Bool) {
        let bytes = Array(value.joined(separator: "\n").utf8)
        let document = YAMLLoader().load(bytes)
        guard let root = document.root, document.diagnostics.isEmpty, let layout = YAMLLayout(bytes) else {
            let reason = document.diagnostics.first?.message ?? "not valid YAML"
            throw ConfigurationEditError("the new entry \"\(name)\" cannot be read: \(reason)")
        }
        let isBlock = layout.root.entries != nil && !layout.root.isFlow
        guard isBlock || value.count == 1 else {
            throw ConfigurationEditError("the new entry \"\(name)\" is neither a mapping nor on one line")
        }
        return (root, isBlock)
    }
}

extension ConfigNode {
    /// Whether both mean the same, wherever they stand, in the same order.
    func isSame(as other: ConfigNode) -> Bool {
        switch (content, other.content) {
        case (.scalar(let mine), .scalar(let others)): mine == others
        case (.sequence(let mine), .sequence(let others)):
            mine.count == others.count && zip(mine, others).allSatisfy { $0.isSame(as: $1) }
        case (.mapping(let mine), .mapping(let others)):
            mine.count == others.count
                && zip(mine, others).allSatisfy { $0.key == $1.key && $0.value.isSame(as: $1.value) }
        default: false
        }
    }

    fileprivate func appending(_ node: ConfigNode, as name: String, to section: String) -> ConfigNode {
        let entry = Entry(key: name, keySpan: node.span, value: node)
        return changing(section) { entries in entries.append(entry) }
    }

    fileprivate func removing(_ name: String, from section: String) -> ConfigNode {
        changing(section) { entries in entries.removeAll { $0.key == name } }
    }

    fileprivate func setting(_ key: String, of name: String, in section: String, to value: ConfigNode) -> ConfigNode {
        changing(section) { entries in
            for index in entries.indices where entries[index].key == name {
                guard case .mapping(var keys) = entries[index].value.content else { continue }
                for place in keys.indices where keys[place].key == key { keys[place].value = value }
                entries[index].value.content = .mapping(keys)
            }
        }
    }

    private func changing(_ section: String, _ change: (inout [Entry]) -> Void) -> ConfigNode {
        guard case .mapping(var sections) = content else { return self }
        if let index = sections.firstIndex(where: { $0.key == section }) {
            var entries: [Entry] = []
            if case .mapping(let present) = sections[index].value.content { entries = present }
            change(&entries)
            sections[index].value.content = .mapping(entries)
        } else {
            var entries: [Entry] = []
            change(&entries)
            let place = SectionOrder.index(for: section, among: sections.map(\.key))
            let made = Entry(key: section, keySpan: span, value: ConfigNode(.mapping(entries), at: span))
            sections.insert(made, at: place)
        }
        var changed = self
        changed.content = .mapping(sections)
        return changed
    }
}

/// Why a configuration is not edited. Nothing was changed.
package struct ConfigurationEditError: Error, Hashable, Sendable {
    package let message: String
    /// Where the reason stands, counted from 1.
    package let line: Int?

    init(_ message: String, line: Int? = nil) {
        self.message = message
        self.line = line
    }

    /// With the place, as diagnostics write it.
    ///
    /// - Parameter file: As people know it.
    package func text(in file: String) -> String { line.map { "\(file):\($0): \(message)" } ?? "\(file): \(message)" }
}
