import GatewayCore

/// What `env` does: prints the variables with which programs use the gateway.
package struct EnvOperation: Sendable {
    private let configuration: String
    private let source: ClientTokenSource
    private let format: EnvironmentFormat

    /// - Throws: ``ExitStatus/usage`` when `format` is none.
    package init(configuration: String, source: ClientTokenSource, format: String) throws(CommandFailure) {
        guard let format = EnvironmentFormat(rawValue: format) else {
            let formats = EnvironmentFormat.allCases.map(\.rawValue).joined(separator: ", ")
            throw CommandFailure(.usage, "there is no format \"\(LogText.clean(format))\"; formats: \(formats)")
        }
        self.configuration = configuration
        self.source = source
        self.format = format
    }

    package func run() async throws(CommandFailure) -> String {
        let access = try await ClientAccess.ofRunningGateway(configuration: configuration, source: source, advice: "")
        guard access.proof == nil || !Console.isOutputTerminal else {
            throw CommandFailure(
                .usage,
                "the token of the client would be shown on the terminal; use it without printing it:\n"
                    + "  eval \"$(authgateway env --client NAME)\""
            )
        }
        guard let text = format.text(access.variables) else {
            throw CommandFailure(
                .failed,
                "a value has a line break, which a file for docker cannot hold; use another format"
            )
        }
        return text
    }
}
