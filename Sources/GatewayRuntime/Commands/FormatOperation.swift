/// What `fmt` does: lays one file of the configuration out, and changes nothing that it means.
package enum FormatOperation {
    /// - Parameter onlyChecks: Writes nothing.
    /// - Returns: What is for standard output, and whether the file had that form before.
    package static func run(_ path: String, onlyChecks: Bool) throws(CommandFailure) -> (output: String, isClean: Bool)
    {
        let editor = try ConfigurationEditor(path)
        try editor.format()
        let difference = editor.difference
        guard !editor.changedFiles.isEmpty else { return ("", true) }
        let shown = LogText.clean(path)
        guard !onlyChecks else {
            return (difference.isEmpty ? "\(shown): only line breaks differ.\n" : difference, false)
        }
        try editor.write()
        return ("Formatted \(shown).\n", false)
    }
}
