/// What is said of the configuration itself.
package enum ConfigurationRule {
    /// - Parameters:
    ///   - problem: What is wrong with a certificate or key that the configuration only names.
    ///   - counts: For example `3 routes, 2 credentials`; nil when it could not be read.
    package static func findings(
        of report: DiagnosticReport,
        problem: String?,
        file: String,
        counts: String?
    ) -> [DoctorFinding] {
        var findings = report.diagnostics.map { finding($0, of: file) }
        if let problem {
            findings.append(DoctorFinding(.configuration, .error, file, problem, command: check(file)))
        }
        if let counts, findings.allSatisfy({ $0.level != .error }) {
            findings.insert(DoctorFinding(.configuration, .ok, file, counts), at: 0)
        }
        if counts == nil {
            let text = "nothing else was checked, because the configuration has errors"
            findings.append(DoctorFinding(.configuration, .skipped, file, text))
        }
        return findings
    }

    /// One that comes with a command is about who may write to a file.
    private static func finding(_ entry: DiagnosticReport.Entry, of file: String) -> DoctorFinding {
        let level: DoctorFinding.Level = entry.severity == ConfigDiagnostic.Severity.error.rawValue ? .error : .warning
        if let command = entry.command {
            let text =
                entry.message.hasSuffix("; run: \(command)")
                ? String(entry.message.dropLast(command.count + 7)) : entry.message
            return DoctorFinding(.files, level, entry.file, text, remedy: "Remove that permission.", command: command)
        }
        let place = [entry.line, entry.column].compactMap { $0.map(String.init) }
        let subject = ([entry.file] + place).joined(separator: ":")
        let path = entry.path.isEmpty ? "" : "\(entry.path): "
        return DoctorFinding(.configuration, level, subject, path + entry.message, command: check(file))
    }

    private static func check(_ file: String) -> String { GatewayCommand.line("check", file) }
}
