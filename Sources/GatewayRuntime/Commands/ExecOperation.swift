import Foundation
import GatewayCore

/// What `exec` does: runs a program that uses a gateway as its proxy.
package struct ExecOperation: Sendable {
    private let configuration: String
    private let command: [String]
    private let source: ClientTokenSource
    private let isEphemeral: Bool

    /// - Parameters:
    ///   - command: The program and its arguments.
    ///   - isEphemeral: With a gateway of its own, for as long as the program runs.
    package init(configuration: String, command: [String], source: ClientTokenSource, isEphemeral: Bool) {
        self.configuration = configuration
        self.command = command
        self.source = source
        self.isEphemeral = isEphemeral
    }

    /// Becomes the program where a gateway runs, and does not return then.
    ///
    /// - Returns: What to end with.
    package func run() async throws(CommandFailure) -> Int32 {
        let descriptors = OpenDescriptors.current
        guard !isEphemeral else {
            return try await EphemeralGateway(configuration: configuration, client: source.client)
                .run { (access, signals) throws(CommandFailure) in
                    descriptors.closeOthersInPrograms()
                    do throws(ForegroundProgram.Failure) {
                        return try await ForegroundProgram.run(
                            command,
                            environment: environment(access),
                            signals: signals
                        )
                    } catch {
                        return report(error)
                    }
                }
        }
        let access = try await ClientAccess.ofRunningGateway(
            configuration: configuration,
            source: source,
            advice: "\nor let this command run one of its own for as long as the program runs: --ephemeral"
        )
        if !access.endpoint.tunnelsUnrouted, Console.isErrorTerminal {
            Console.writeError("authgateway: \(ProxyOffer.refusalNotice)\n")
        }
        descriptors.closeOthersInPrograms()
        return report(ForegroundProgram.replaceProcess(command, environment: environment(access)))
    }

    private func environment(_ access: ClientAccess) -> [String: String] {
        var environment = ProcessInfo.processInfo.environment
        for variable in access.variables { environment[variable.name] = variable.value }
        return environment
    }

    private func report(_ failure: ForegroundProgram.Failure) -> Int32 {
        Console.writeError("authgateway: \(LogText.clean(command[0])) cannot be started: \(failure.reason)\n")
        return failure.status
    }
}
