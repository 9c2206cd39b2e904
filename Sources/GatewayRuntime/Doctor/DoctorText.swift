import GatewayCore

/// A ``DoctorReport`` as people read it: a heading for each group, a line for each finding, and below it what to do.
struct DoctorText {
    private static let indent = "  "

    let report: DoctorReport
    let style: TextStyle

    func text() -> String {
        var text = ""
        for group in DoctorFinding.Group.allCases {
            let (findings, omitted) = report.condensed(group)
            guard !findings.isEmpty else { continue }
            text += "\(group.rawValue)\n" + findings.map(lines).joined() + rest(omitted) + "\n"
        }
        return text + summary
    }

    private func rest(_ omitted: [DoctorFinding.Level: Int]) -> String {
        DoctorFinding.Level.allCases.compactMap { level -> String? in
            guard let count = omitted[level] else { return nil }
            let noun = level == .warning || level == .error ? level.rawValue : "\(level.rawValue) line"
            let command = GatewayCommand.line("doctor", "--json")
            return """
                \(Self.indent)… and \(count) more \(noun)\(count == 1 ? "" : "s"). To see all:
                \(Self.indent)\(Self.indent)\(command)

                """
        }.joined()
    }

    // MARK: One finding

    private func lines(_ finding: DoctorFinding) -> String {
        let level = finding.level.rawValue
        let column = Self.indent.count + levelWidth + Self.indent.count
        let start =
            Self.indent + style.paint(level, color(finding.level))
            + String(repeating: " ", count: levelWidth - level.count) + Self.indent
        var text = start + wrapped("\(finding.subject): \(finding.text)", column)
        let margin = String(repeating: " ", count: column)
        if let remedy = finding.remedy { text += margin + wrapped(remedy, column) }
        // On a line of its own and whole, to be copied.
        if let command = finding.command { text += "\(margin)  \(LogText.clean(command))\n" }
        return text
    }

    private func wrapped(_ text: String, _ column: Int) -> String {
        let room = style.width.map { max(20, $0 - column) } ?? .max
        let margin = "\n" + String(repeating: " ", count: column)
        return TableLayout.wrap(LogText.clean(text), to: room).joined(separator: margin) + "\n"
    }

    private var levelWidth: Int { DoctorFinding.Level.allCases.map(\.rawValue.count).max() ?? 0 }

    private func color(_ level: DoctorFinding.Level) -> TextStyle.Color? {
        switch level {
        case .ok: .green
        case .skipped: nil
        case .warning: .yellow
        case .error: .red
        }
    }

    // MARK: The end

    private var summary: String {
        let (errors, warnings) = (report.count(.error), report.count(.warning))
        guard errors + warnings > 0 else { return style.paint("no problem", .green) + "\n" }
        let text = "\(errors.counted("error")), \(warnings.counted("warning"))"
        return style.paint(text, errors > 0 ? .red : .yellow) + "\n"
    }
}
