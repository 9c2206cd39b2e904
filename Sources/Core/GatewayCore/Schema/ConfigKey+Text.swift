extension ConfigKey {
    /// The key and what is known about it, one fact a line, with an example that can be copied.
    package var text: String {
        var text = "\(path)\n"
        text += "  \(meaning?.text ?? "A part of \(parent), whose example shows how it is used.")\n"
        text += "\n"
        for (name, value) in facts { text += "  \(name.padded(to: 10))\(value)\n" }
        if let lines = exampleLines {
            text += "\n  Example:\n\n" + lines.map { "    \($0)\n" }.joined()
        }
        return text
    }

    private var parent: String { String(path[..<(path.lastIndex(of: ".") ?? path.startIndex)]) }

    private var facts: [(String, String)] {
        var facts = [("type:", type)]
        if let standard = meaning?.standard { facts.append(("default:", standard)) }
        if isRequired { facts.append(("required:", "yes")) }
        if !strategies.isEmpty { facts.append(("strategy:", strategies.joined(separator: ", "))) }
        if !keys.isEmpty { facts.append(("keys:", keys.joined(separator: ", "))) }
        return facts
    }

    /// The whole way from the top of the document; nil without an example.
    package var exampleLines: [String]? {
        guard let meaning, let last = segments.last else { return nil }
        var lines = meaning.lines(for: last == KeyMeaning.anyName ? Self.sampleName : last)
        for segment in segments.dropLast().reversed() {
            if segment.hasSuffix("[]") {
                // The first line begins the element, the others stand below it.
                lines = lines.enumerated().map { $0.offset == 0 ? "- \($0.element)" : "  \($0.element)" }
                lines = ["\(segment.dropLast(2)):"] + lines.map { "  \($0)" }
            } else {
                lines = ["\(segment == KeyMeaning.anyName ? Self.sampleName : segment):"] + lines.map { "  \($0)" }
            }
        }
        return lines
    }

    private static let sampleName = "NAME"
}

/// As `config explain --json` prints it.
extension ConfigKey: Encodable {
    private enum CodingKeys: String, CodingKey {
        case path, meaning, type, standard = "default", isRequired = "required", strategies, keys, example
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(path, forKey: .path)
        try container.encodeIfPresent(meaning?.text, forKey: .meaning)
        try container.encode(type, forKey: .type)
        try container.encodeIfPresent(meaning?.standard, forKey: .standard)
        try container.encode(isRequired, forKey: .isRequired)
        try container.encode(strategies, forKey: .strategies)
        try container.encode(keys, forKey: .keys)
        try container.encodeIfPresent(exampleLines?.joined(separator: "\n"), forKey: .example)
    }
}

extension String {
    fileprivate func padded(to width: Int) -> String { self + String(repeating: " ", count: max(1, width - count)) }
}
