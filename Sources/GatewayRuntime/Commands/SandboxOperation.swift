import GatewayCore
import GatewayFiles
import GatewaySandbox
import Logging
import NIOCore
import UnixSignals

/// What `sandbox` does: the local authorities by themselves, until a signal.
package enum SandboxOperation {
    /// - Parameters:
    ///   - firstPort: The five servers take this port and the four after it; 0 for any that are free.
    ///   - tokenLifetime: Seconds.
    ///   - emit: Takes what is for standard output: lines for a shell, or a JSON object.
    package static func run(
        firstPort: Int,
        tokenLifetime: Int,
        asJSON: Bool,
        emit: @escaping @Sendable (String) -> Void
    ) async throws(CommandFailure) {
        var options = Sandbox.Options()
        options.tokenLifetime = tokenLifetime
        if firstPort > 0 {
            options.boxPort = firstPort
            options.boxDownloadsPort = firstPort + 1
            options.dukePort = firstPort + 2
            options.oauthPort = firstPort + 3
            options.upstreamPort = firstPort + 4
        }
        let logger = LogOutput.standardError.logger("authgateway.sandbox", level: .warning)
        let sandbox = try await start(options, logger: logger)
        emit(asJSON ? try JSONText.pretty(sandbox.environment) : shellLines(sandbox.environment))
        for await _ in await UnixSignalsSequence(trapping: .sigterm, .sigint) { break }
        await sandbox.stop()
    }

    static func start(_ options: Sandbox.Options, logger: Logger) async throws(CommandFailure) -> Sandbox {
        do {
            return try await Sandbox.start(options: options, logger: logger)
        } catch {
            let reason = (error as? IOError).map { SystemError.text($0.errnoCode) } ?? LogText.clean("\(error)")
            throw CommandFailure(.failed, "the sandbox cannot start: \(reason)")
        }
    }

    /// For `eval`, or to read.
    private static func shellLines(_ environment: [String: String]) -> String {
        environment.sorted { $0.key < $1.key }
            .map { "export \($0.key)='\($0.value.replacing("'", with: "'\\''"))'\n" }
            .joined()
    }
}
