import GatewayHTTP

/// What an edit changes in a configuration file, as people read it: a unified difference without secrets.
package struct ConfigurationDifference: Sendable {
    /// One of the two texts.
    package struct Side: Sendable {
        let lines: [String]
        let hidden: [Int: [SourceSpan]]
        /// The line has no key of its own, and the value of the line above it may be a secret.
        private let continuesSecret: [Bool]

        /// - Parameters:
        ///   - lines: As the parser counts them.
        ///   - hidden: What the decoder found to be secrets (``ConfigContext/secretSpans``).
        ///   - file: The index that those of them carry that are of this file.
        package init(_ lines: [String], hiding hidden: Set<SourceSpan> = [], file: Int = 0) {
            self.lines = lines
            continuesSecret = SecretMask.continuations(in: lines)
            self.hidden = Dictionary(grouping: hidden.filter { $0.file == file }, by: \.line)
        }

        func shown(_ index: Int) -> String {
            let line = lines[index]
            var masked = SecretMask.ranges(in: line, continuing: continuesSecret[index])
            for span in hidden[index + 1] ?? [] { masked.append((span.column - 1)..<(span.column - 1 + span.length)) }
            return SourceLine(line, hiding: masked).text
        }
    }

    fileprivate enum Change {
        case kept(old: Int, new: Int)
        case removed(Int)
        case added(Int)
    }

    private static let context = 3
    /// Above this number, lines are not compared one by one; that takes too long.
    static let maximumCompared = 4000

    private let name: String
    private let old: Side
    private let new: Side

    /// - Parameter name: The name of the file, as people know it.
    package init(of name: String, from old: Side, to new: Side) {
        self.name = name
        self.old = old
        self.new = new
    }

    /// Ends with a line break; empty when no line differs.
    package var text: String {
        let changes = changes()
        var text = ""
        var index = 0
        while let first = changes[index...].firstIndex(where: \.isChange) {
            let start = max(index, first - Self.context)
            let end = self.end(of: changes, from: first)
            text += hunk(changes[start..<end])
            index = end
        }
        let shown = name.singleLine(limit: 500)
        return text.isEmpty ? "" : "--- \(shown)\n+++ \(shown)\n\(text)"
    }

    /// Behind the context of the last change that is near the one before.
    private func end(of changes: [Change], from first: Int) -> Int {
        var last = first
        while let next = changes[(last + 1)...].prefix(2 * Self.context + 1).firstIndex(where: \.isChange) {
            last = next
        }
        return min(changes.count, last + 1 + Self.context)
    }

    private func hunk(_ changes: ArraySlice<Change>) -> String {
        let olds = changes.compactMap(\.oldLine)
        let news = changes.compactMap(\.newLine)
        var text = "@@ -\((olds.first ?? -1) + 1),\(olds.count) +\((news.first ?? -1) + 1),\(news.count) @@\n"
        for change in changes {
            switch change {
            case .kept(_, let line): text += " \(new.shown(line))\n"
            case .removed(let line): text += "-\(old.shown(line))\n"
            case .added(let line): text += "+\(new.shown(line))\n"
            }
        }
        return text
    }

    private func changes() -> [Change] {
        let (olds, news) = (old.lines, new.lines)
        let shorter = min(olds.count, news.count)
        let before = (0..<shorter).prefix { olds[$0] == news[$0] }.count
        let behind = (0..<(shorter - before)).prefix { olds[olds.count - 1 - $0] == news[news.count - 1 - $0] }.count
        let (oldMiddle, newMiddle) = (before..<(olds.count - behind), before..<(news.count - behind))
        var changes = (0..<before).map { Change.kept(old: $0, new: $0) }
        changes += middle(oldMiddle, newMiddle)
        changes += (0..<behind).map { Change.kept(old: oldMiddle.upperBound + $0, new: newMiddle.upperBound + $0) }
        return changes
    }

    private func middle(_ olds: Range<Int>, _ news: Range<Int>) -> [Change] {
        guard olds.count + news.count <= Self.maximumCompared else {
            return olds.map { .removed($0) } + news.map { .added($0) }
        }
        let difference = new.lines[news].difference(from: old.lines[olds])
        var (removed, added): (Set<Int>, Set<Int>) = ([], [])
        for change in difference {
            switch change {
            case .remove(let offset, _, _): removed.insert(olds.lowerBound + offset)
            case .insert(let offset, _, _): added.insert(news.lowerBound + offset)
            }
        }
        var changes: [Change] = []
        var (line, other) = (olds.lowerBound, news.lowerBound)
        while line < olds.upperBound || other < news.upperBound {
            if line < olds.upperBound, removed.contains(line) {
                changes.append(.removed(line))
                line += 1
            } else if other < news.upperBound, added.contains(other) {
                changes.append(.added(other))
                other += 1
            } else {
                changes.append(.kept(old: line, new: other))
                (line, other) = (line + 1, other + 1)
            }
        }
        return changes
    }
}

extension ConfigurationDifference.Change {
    fileprivate var isChange: Bool {
        if case .kept = self { return false }
        return true
    }

    fileprivate var oldLine: Int? {
        switch self {
        case .kept(let line, _), .removed(let line): line
        case .added: nil
        }
    }

    fileprivate var newLine: Int? {
        switch self {
        case .kept(_, let line), .added(let line): line
        case .removed: nil
        }
    }
}
