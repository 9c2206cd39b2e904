package import GatewayHTTP

/// Sends one request to an authority: verified TLS, no redirects, bounded answer, one deadline for the whole of it.
package protocol TokenEndpoint: Sendable {
    func send(_ request: TokenRequest, deadline: Duration) async -> Result<TokenReply, TokenTransportFailure>
}

/// Runs programs of the configuration: no shell, a small environment, a bound on the output, one deadline for all of it.
package protocol ProgramRunner: Sendable {
    /// - Parameter input: What the program reads from its standard input; nil for nothing.
    /// - Returns: What it printed on its standard output, when it ended with status 0.
    func run(_ program: TokenProgram, input: Secret?, deadline: Duration) async -> Result<[UInt8], ProgramFailure>
}

/// Runs none.
package struct NoPrograms: ProgramRunner {
    package init() {}

    package func run(
        _ program: TokenProgram,
        input: Secret?,
        deadline: Duration
    ) async -> Result<[UInt8], ProgramFailure> {
        .failure(ProgramFailure(.notStarted, "cannot be started here"))
    }
}
