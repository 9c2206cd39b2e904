import GatewayCore
import GatewayFiles
import GatewayYAML

/// What every command that edits the configuration does in the end: shows, checks, asks, writes, and says what is next.
package struct EditOutcome: Sendable {
    private let editor: ConfigurationEditor
    private let path: String

    /// - Parameter path: The main file, as messages shall print it.
    package init(_ editor: ConfigurationEditor, at path: String) {
        self.editor = editor
        self.path = path
    }

    /// Shows and checks, and writes nothing.
    package func preview() throws(CommandFailure) {
        Console.write(editor.difference)
        Console.writeError(try editor.check())
    }

    /// - Parameters:
    ///   - isConfirmed: Writes without a question.
    ///   - secrets: Files that the new configuration names. They stay only if it is written.
    /// - Returns: What was written, and what a running gateway makes of it.
    func apply(
        isConfirmed: Bool,
        with secrets: SecretFiles? = nil
    ) async throws(CommandFailure) -> String {
        let difference = editor.difference
        guard !difference.isEmpty else { return "Nothing to change.\n" }
        Console.write(difference)
        Console.writeError(try editor.check())
        let files = editor.changedFiles.map(LogText.clean).joined(separator: ", ")
        try Confirmation.require("Write \(files)?", isGiven: isConfirmed)
        if let secrets {
            try secrets.write { () throws(CommandFailure) in try editor.write() }
        } else {
            try editor.write()
        }
        return "Wrote \(files).\n\(await reloaded())"
    }

    /// A gateway that was started elsewhere may lack a variable that this command has.
    private func reloaded() async -> String {
        let file = FileIdentity(path)
        let running = RunningGateways(environment: Console.environment).all().first { gateway in
            file != nil && FileIdentity(gateway.configuration) == file
        }
        guard let running else {
            return "No gateway was found that runs with it. A running one reads the file again by itself.\n"
        }
        let name = "The running gateway (process \(running.process))"
        guard let report = try? await OperatorCommands.client(configuration: path).reload() else {
            return "\(name) reads it again by itself, within seconds.\n"
        }
        guard report.outcome == .loaded else {
            return "\(name) did not load it:\n\(report.problems)\n"
        }
        return "\(name) serves it now.\n"
    }
}
