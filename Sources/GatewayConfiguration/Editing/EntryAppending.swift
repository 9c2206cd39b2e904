/// Puts the lines of a new entry into a file. What it has made is still to be checked.
struct EntryAppending {
    private(set) var lines: TextLines
    private let layout: YAMLLayout

    init(lines: TextLines, layout: YAMLLayout) {
        self.lines = lines
        self.layout = layout
    }

    private var text: TextSections { TextSections(lines: lines.lines, layout: layout) }

    /// - Parameter isMapping: The value is a mapping that stands below its name.
    mutating func append(
        _ entry: ConfigurationText.Entry,
        isMapping: Bool,
        to section: String
    ) throws(ConfigurationEditError) {
        let text = text
        guard let index = text.index(of: section) else {
            return create(section, with: entry, isMapping: isMapping)
        }
        let place = text.sections[index]
        let line = place.keyStart.line
        if place.value.entries?.contains(where: { $0.key == entry.name }) ?? false {
            throw ConfigurationEditError("\(section) has an entry \"\(entry.name)\" already", line: line)
        }
        switch place.value.kind {
        case .scalar(isEmpty: true), .mapping(_, isFlow: false): break
        case .mapping(let entries, isFlow: true):
            try unfold(entries, of: place)
            return add(entry, isMapping, at: line + entries.count, indentation: text.unit + place.keyStart.column - 1)
        case .alias:
            throw ConfigurationEditError("\(section) is an alias of a value elsewhere; edit it by hand", line: line)
        case .scalar, .sequence:
            throw ConfigurationEditError("\(section) is not a mapping of names", line: line)
        }
        let entries = place.value.entries ?? []
        let column = entries.first?.keyStart.column ?? place.keyStart.column + text.unit
        let isSeparate = text.separatesEntries(of: entries) && !entries.isEmpty
        add(entry, isMapping, at: text.end(ofSection: index), indentation: column - 1, isSeparate: isSeparate)
    }

    private mutating func add(
        _ entry: ConfigurationText.Entry,
        _ isMapping: Bool,
        at index: Int,
        indentation: Int,
        isSeparate: Bool = false
    ) {
        let made = Self.lines(of: entry, isMapping, indentation: indentation, unit: text.unit)
        lines.insert((isSeparate ? [""] : []) + made, at: index)
    }

    private static func lines(
        of entry: ConfigurationText.Entry,
        _ isMapping: Bool,
        indentation: Int,
        unit: Int
    ) -> [String] {
        let margin = String(repeating: " ", count: indentation)
        let comment = entry.comment.map { $0.isEmpty ? "\(margin)#" : "\(margin)# \($0)" }
        let key = "\(margin)\(YAMLScalar.key(entry.name)):"
        guard isMapping else { return comment + ["\(key) \(entry.value[0])"] }
        let below = entry.value.map { line -> String in
            guard !line.isEmpty else { return "" }
            let own = line.utf8.prefix { $0 == 0x20 }.count
            let step = String(repeating: " ", count: unit + own / 2 * unit + own % 2)
            return margin + step + String(line.dropFirst(own))
        }
        return comment + [key] + below
    }

    // MARK: Sections that are not there

    private mutating func create(_ section: String, with entry: ConfigurationText.Entry, isMapping: Bool) {
        let text = text
        let margin = layout.root.entries?.first.map { $0.keyStart.column - 1 } ?? 0
        var made = ["\(String(repeating: " ", count: margin))\(section):"]
        made += Self.lines(of: entry, isMapping, indentation: margin + text.unit, unit: text.unit)
        let place = SectionOrder.index(for: section, among: text.sections.map(\.key))
        guard place < text.sections.count else {
            return lines.insert((text.hasBlankLines ? [""] : []) + made, at: endOfContent)
        }
        let floor = place > 0 ? text.contentEnd(of: text.sections[place - 1]) : 0
        let index = text.firstLine(of: text.sections[place], from: floor)
        lines.insert(made + (text.hasBlankLines ? [""] : []), at: index)
    }

    /// Behind the last line that is not blank, within the document.
    private var endOfContent: Int {
        let text = text
        let last = text.sections.last.map { text.contentEnd(of: $0) } ?? 0
        var end = lines.lines[last...].firstIndex { $0.content.hasPrefix("...") } ?? lines.lines.count
        while end > last, lines.lines[end - 1].isBlank { end -= 1 }
        return end
    }

    // MARK: Sections in braces

    /// Writes `routes: {a: …, b: …}` as a line for each entry.
    private mutating func unfold(
        _ entries: [YAMLLayout.Entry],
        of section: YAMLLayout.Entry
    ) throws(ConfigurationEditError) {
        let (value, row) = (section.value, section.keyStart.line - 1)
        guard value.start.line == value.end.line, value.start.line == row + 1, value.anchor == nil else {
            throw ConfigurationEditError(
                "\(section.key) is in braces over several lines, or has an anchor; write each entry on its own line first",
                line: row + 1
            )
        }
        let line = lines.lines[row].content
        let margin = String(repeating: " ", count: section.keyStart.column - 1 + text.unit)
        let below = entries.map { entry -> String in
            let written = line.columns(entry.keyStart.column..<max(entry.keyEnd.column, entry.value.end.column))
            return margin + (entry.value.end <= entry.keyEnd ? written + ":" : written)
        }
        lines.lines[row].content =
            line.columns(1..<value.start.column).withoutTrailingBlanks + line.columns(from: value.end.column)
        lines.insert(below, at: row + 1)
    }
}

/// Where a section that a file does not have yet is put.
enum SectionOrder {
    private static let keys = [
        "version", "include", "state_directory", "workers", "proxy_status", "request_id_header", "listeners", "ca",
        "access", "audit", "telemetry", "tokens", "limits", "defaults", "credentials", "routes",
    ]

    /// Before the first one that comes later, else behind all of them.
    static func index(for section: String, among present: [String]) -> Int {
        guard let rank = keys.firstIndex(of: section) else { return present.count }
        let later = Set(keys[(rank + 1)...])
        return present.firstIndex { later.contains($0) } ?? present.count
    }
}
