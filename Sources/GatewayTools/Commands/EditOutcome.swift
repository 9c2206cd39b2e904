import GatewayApp
import GatewayConfiguration
import GatewayFiles
import GatewayHTTP

/// What every command that edits the configuration does in the end: shows, checks, asks, writes, and says what is next.
struct EditOutcome: Sendable {
    struct Written: Sendable {
        /// What a running gateway makes of the new configuration.
        enum Gateway: Sendable {
            case serves
            case refuses
            /// None was found, or it did not answer.
            case unknown
        }

        /// What was written, and what a running gateway makes of it.
        let text: String
        let gateway: Gateway
    }

    let editor: ConfigurationEditor
    /// The main file, as messages shall print it.
    let path: String

    /// Shows and checks, and writes nothing.
    func preview() throws(CommandFailure) {
        Console.write(editor.difference)
        Console.writeError(try editor.check())
    }

    /// - Parameters:
    ///   - isConfirmed: Writes without a question.
    ///   - secrets: Files that the new configuration names. They stay only if it is written.
    func apply(
        isConfirmed: Bool,
        with secrets: SecretFiles? = nil
    ) async throws(CommandFailure) -> Written {
        let difference = editor.difference
        guard !difference.isEmpty else { return Written(text: "Nothing to change.\n", gateway: .unknown) }
        Console.write(difference)
        Console.writeError(try editor.check())
        let files = editor.changedFiles.map(LogText.clean).joined(separator: ", ")
        try Confirmation.require("Write \(files)?", isGiven: isConfirmed)
        if let secrets {
            try secrets.write { () throws(CommandFailure) in try editor.write() }
        } else {
            try editor.write()
        }
        let (text, gateway) = await reloaded()
        return Written(text: "Wrote \(files).\n\(text)", gateway: gateway)
    }

    /// A gateway that was started elsewhere may lack a variable that this command has.
    private func reloaded() async -> (String, Written.Gateway) {
        let file = FileIdentity(path)
        let running = RunningGateways(environment: Console.environment).all().first { gateway in
            file != nil && FileIdentity(gateway.configuration) == file
        }
        guard let running else {
            let place = path == ConfigLocator.standard ? [] : ["--config", path]
            let command = GatewayCommand.line(["run"] + place)
            return ("No running gateway uses this file. Start one:\n  \(command)\n", .unknown)
        }
        let name = "The running gateway (process \(running.process))"
        guard let report = try? await OperatorSettings(running: path).client.ask(AdminAPI.operations.reload) else {
            return ("\(name) reads it again by itself, within seconds.\n", .unknown)
        }
        guard report.outcome == .loaded else {
            return ("\(name) did not load it:\n\(report.problems)\n", .refuses)
        }
        return ("\(name) serves it now.\n", .serves)
    }
}
