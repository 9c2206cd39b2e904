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
    ///   - prepare: What the new configuration needs, once it was agreed to.
    ///   - undo: Takes that back when nothing is written after all.
    /// - Returns: What was written, and whether a running gateway picks it up.
    package func apply(
        isConfirmed: Bool,
        prepare: () throws(CommandFailure) -> Void = {},
        undo: () -> Void = {}
    ) throws(CommandFailure) -> String {
        let difference = editor.difference
        guard !difference.isEmpty else { return "Nothing to change.\n" }
        Console.write(difference)
        Console.writeError(try editor.check())
        let files = editor.changedFiles.map(LogText.clean).joined(separator: ", ")
        try Confirmation.require("Write \(files)?", isGiven: isConfirmed)
        do throws(CommandFailure) {
            try prepare()
            try editor.write()
        } catch {
            undo()
            throw error
        }
        return "Wrote \(files).\n\(Self.nextStep(path))"
    }

    private static func nextStep(_ path: String) -> String {
        let file = FileIdentity(path)
        let running = RunningGateways(environment: Console.environment).all().first { gateway in
            file != nil && FileIdentity(gateway.configuration) == file
        }
        guard let running else {
            return "No gateway was found that runs with it. A running one reads the file again by itself.\n"
        }
        return "The running gateway (process \(running.process)) reads it again by itself, within seconds.\n"
    }
}
