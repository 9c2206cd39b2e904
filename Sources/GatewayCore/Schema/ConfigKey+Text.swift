extension ConfigKey {
    /// The key and what is known about it, one fact a line, with an example that can be copied.
    package var text: String {
        var text = "\(path)\n"
        text += "  \(meaning ?? "A part of \(parent), whose example shows how it is used.")\n"
        text += "\n"
        for (name, value) in facts { text += "  \(name.padded(to: 10))\(value)\n" }
        if let example {
            let lines = example.split(separator: "\n", omittingEmptySubsequences: false)
            text += "\n  Example:\n\n" + lines.map { "    \($0)\n" }.joined()
        }
        return text
    }

    private var parent: String { String(path[..<(path.lastIndex(of: ".") ?? path.startIndex)]) }

    private var facts: [(String, String)] {
        var facts = [("type:", type)]
        if let standard { facts.append(("default:", standard)) }
        if isRequired { facts.append(("required:", "yes")) }
        if !strategies.isEmpty { facts.append(("strategy:", strategies.joined(separator: ", "))) }
        if !keys.isEmpty { facts.append(("keys:", keys.joined(separator: ", "))) }
        return facts
    }
}

extension String {
    fileprivate func padded(to width: Int) -> String { self + String(repeating: " ", count: max(1, width - count)) }
}
