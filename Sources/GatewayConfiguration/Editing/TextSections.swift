/// Which lines of a file belong to which entry: content by the parser, comments by where they stand.
struct TextSections {
    let lines: [TextLines.Line]
    let layout: YAMLLayout

    var sections: [YAMLLayout.Entry] { layout.root.entries ?? [] }

    /// The index of the section, which may be missing.
    func index(of section: String) -> Int? { sections.firstIndex { $0.key == section } }

    /// The first line of the comments directly above an entry, at most as far to the right as its key; else its own.
    ///
    /// - Parameter floor: The first line that can be one.
    func firstLine(of entry: YAMLLayout.Entry, from floor: Int) -> Int {
        var first = entry.keyStart.line - 1
        while first > floor, lines[first - 1].isComment, lines[first - 1].indentation < entry.keyStart.column {
            first -= 1
        }
        return first
    }

    /// The line behind an entry: with the comments that stand deeper than its key.
    ///
    /// - Parameters:
    ///   - indentation: Of the comments that belong to it, at least.
    ///   - limit: The line that the next entry begins at, with its comments.
    func end(of entry: YAMLLayout.Entry, indentation: Int, before limit: Int) -> Int {
        var end = contentEnd(of: entry)
        var line = end
        while line < limit, lines[line].isBlank || (lines[line].isComment && lines[line].indentation >= indentation) {
            line += 1
            if lines[line - 1].isComment { end = line }
        }
        return end
    }

    /// The line behind the last one that is no comment.
    func contentEnd(of entry: YAMLLayout.Entry) -> Int {
        var end = min(entry.lines.upperBound + 1, lines.count)
        if entry.value.lastScalarIsBlock {
            while end > entry.keyStart.line, lines[end - 1].isBlank { end -= 1 }
        }
        return end
    }

    /// Where the section at `index` ends, with the comments that are indented as its entries are.
    func end(ofSection index: Int) -> Int {
        let section = sections[index]
        let limit = index + 1 < sections.count ? sections[index + 1].keyStart.line - 1 : lines.count
        return end(of: section, indentation: section.keyStart.column, before: limit)
    }

    /// How many columns the file indents by.
    var unit: Int {
        for section in sections {
            guard let entries = section.value.entries, !section.value.isFlow, let first = entries.first else {
                continue
            }
            return max(1, first.keyStart.column - section.keyStart.column)
        }
        return 2
    }

    /// Whether blank lines stand between sections.
    var hasBlankLines: Bool { lines.contains(where: \.isBlank) }

    /// Whether a blank line stands above the last entry of a section, or above one of another when it has only one.
    func separatesEntries(of entries: [YAMLLayout.Entry]) -> Bool {
        let all = entries.count > 1 ? [entries] : sections.compactMap(\.value.entries).filter { $0.count > 1 }
        return all.contains { entries in
            guard let last = entries.last else { return false }
            let first = firstLine(of: last, from: 0)
            return first > 0 && lines[first - 1].isBlank
        }
    }
}

extension YAMLLayout.Node {
    /// Whether what stands last in it is a block scalar, whose blank lines at the end mean nothing.
    fileprivate var lastScalarIsBlock: Bool {
        switch kind {
        case .scalar, .alias: isBlockScalar
        case .mapping(let entries, _): entries.last?.value.lastScalarIsBlock ?? false
        case .sequence(let elements, _): elements.last?.lastScalarIsBlock ?? false
        }
    }
}
