/// Takes the lines of an entry out of a file. What it has made is still to be checked.
struct EntryRemoval {
    private(set) var lines: TextLines
    private let layout: YAMLLayout

    init(lines: TextLines, layout: YAMLLayout) {
        self.lines = lines
        self.layout = layout
    }

    private var text: TextSections { TextSections(lines: lines.lines, layout: layout) }

    mutating func remove(_ name: String, from section: String) throws(ConfigurationEditError) {
        let text = text
        guard let index = text.index(of: section) else {
            throw ConfigurationEditError("there is no \(section)")
        }
        let place = text.sections[index]
        guard let entries = place.value.entries, let found = entries.firstIndex(where: { $0.key == name }) else {
            throw ConfigurationEditError("\(section) has no entry \"\(name)\" here", line: place.keyStart.line)
        }
        try requireUnused(entries[found], in: section)
        if place.value.isFlow {
            try cut(found, of: entries, in: place)
        } else {
            try drop(found, of: entries, inSection: index)
        }
    }

    /// An alias of what is removed would stand for nothing.
    private func requireUnused(_ entry: YAMLLayout.Entry, in section: String) throws(ConfigurationEditError) {
        let anchors = entry.value.anchors
        let own = entry.keyStart...entry.value.end
        guard let use = layout.root.aliases.first(where: { anchors.contains($0.name) && !own.contains($0.place) })
        else {
            return
        }
        throw ConfigurationEditError(
            "\(section).\(entry.key) has the anchor &\(use.name), which is used here as *\(use.name); write the value out first",
            line: use.place.line
        )
    }

    // MARK: On lines of their own

    private mutating func drop(
        _ found: Int,
        of entries: [YAMLLayout.Entry],
        inSection index: Int
    ) throws(ConfigurationEditError) {
        let text = text
        let (section, entry) = (text.sections[index], entries[found])
        let row = entry.keyStart.line - 1
        guard text.lines[row].indentation == entry.keyStart.column - 1 else {
            throw ConfigurationEditError("\(entry.key) does not begin a line; edit it by hand", line: row + 1)
        }
        let before = found > 0 ? entries[found - 1] : nil
        let floor = before.map { text.contentEnd(of: $0) } ?? section.keyStart.line
        let first = text.firstLine(of: entry, from: floor)
        let limit = found + 1 < entries.count ? entries[found + 1].keyStart.line - 1 : text.end(ofSection: index)
        var end = text.end(of: entry, indentation: entry.keyStart.column, before: limit)
        // The blank lines below it go with it.
        if first <= floor || text.lines[first - 1].isBlank {
            let isLast = end == text.end(ofSection: index)
            while !isLast, end < limit, text.lines[end].isBlank { end += 1 }
        }
        var start = first
        if end >= text.end(ofSection: index), entries.count > 1 {
            while start > floor, text.lines[start - 1].isBlank { start -= 1 }
        }
        lines.lines.removeSubrange(start..<end)
        if entries.count == 1 { writeEmptyBraces(behind: section) }
        // The text ends as it did.
        if end == text.lines.count, let last = text.lines.last, !lines.lines.isEmpty {
            lines.lines[lines.lines.count - 1].end = last.end
        }
    }

    private mutating func writeEmptyBraces(behind section: YAMLLayout.Entry) {
        let row = section.keyEnd.line - 1
        let line = lines.lines[row].content
        let rest = line.columns(from: section.keyEnd.column)
        guard let colon = rest.unicodeScalars.firstIndex(of: ":") else { return }
        let behind = rest.unicodeScalars.index(after: colon)
        lines.lines[row].content =
            line.columns(1..<section.keyEnd.column) + String(rest.unicodeScalars[..<behind]) + " {}"
            + String(rest.unicodeScalars[behind...])
    }

    // MARK: In braces

    private mutating func cut(
        _ found: Int,
        of entries: [YAMLLayout.Entry],
        in section: YAMLLayout.Entry
    ) throws(ConfigurationEditError) {
        let entry = entries[found]
        let start: YAMLEvent.Mark
        let end: YAMLEvent.Mark
        if found + 1 < entries.count {
            (start, end) = (entry.keyStart, entries[found + 1].keyStart)
        } else if found > 0 {
            let before = entries[found - 1]
            (start, end) = (max(before.keyEnd, before.value.end), max(entry.keyEnd, entry.value.end))
        } else {
            (start, end) = (entry.keyStart, max(entry.keyEnd, entry.value.end))
        }
        guard start.line == end.line else {
            throw ConfigurationEditError(
                "\(section.key) is in braces over several lines; write each entry on its own line first",
                line: section.keyStart.line
            )
        }
        let line = lines.lines[start.line - 1].content
        lines.lines[start.line - 1].content = line.columns(1..<start.column) + line.columns(from: end.column)
    }
}
