import Foundation
import GatewayCore
import GatewayFiles
import GatewayProxy
import GatewaySandbox
import Logging
import Metrics
import NIOCore

/// What `run` does: configuration, gateway, banner, and then requests until a signal.
package struct RunOperation: Sendable {
    private let configuration: String
    private let strictModes: Bool
    private let level: Logger.Level
    private let logsAccess: Bool
    private let output: LogOutput

    /// - Throws: ``ExitStatus/usage`` when `logLevel` is none.
    package init(
        configuration: String,
        strictModes: Bool = false,
        logLevel: String,
        logsAccess: Bool
    ) throws(CommandFailure) {
        guard let level = Logger.Level(rawValue: logLevel) else {
            let levels = Logger.Level.allCases.map(\.rawValue).joined(separator: ", ")
            throw CommandFailure(.usage, "there is no log level \"\(LogText.clean(logLevel))\"; levels: \(levels)")
        }
        self.configuration = configuration
        self.strictModes = strictModes
        self.level = level
        self.logsAccess = logsAccess
        output = .standardError
    }

    /// Returns after the graceful stop.
    ///
    /// - Parameter emit: Takes what is for standard output.
    package func run(emit: @escaping @Sendable (String) -> Void) async throws(CommandFailure) {
        let file = try load(overlay: [:])
        try await serve(file, overlay: [:], sandbox: nil, emit: emit)
    }

    /// The same with the sandbox in this process; `SANDBOX_…` in the configuration leads to it.
    ///
    /// - Parameters:
    ///   - tokenLifetime: Seconds that the sandbox's tokens live.
    ///   - writesStarter: Writes the configuration of a first run where there is none.
    package func runWithSandbox(
        tokenLifetime: Int,
        writesStarter: Bool = false,
        emit: @escaping @Sendable (String) -> Void
    ) async throws(CommandFailure) {
        if writesStarter { try writeStarter() }
        var options = Sandbox.Options()
        options.tokenLifetime = tokenLifetime
        let sandbox = try await SandboxOperation.start(options, logger: logger("sandbox"))
        do throws(CommandFailure) {
            let file = try load(overlay: sandbox.environment)
            try await serve(file, overlay: sandbox.environment, sandbox: sandbox.addresses, emit: emit)
        } catch {
            await sandbox.stop()
            throw error
        }
        await sandbox.stop()
    }

    private func writeStarter() throws(CommandFailure) {
        guard FileStatus.owner(of: configuration) == nil else { return }
        let files = try StarterConfiguration.write(to: configuration)
        let text = "Wrote \(files), the configuration of a first run. The gateway follows your changes.\n"
        LogOutput.logToStandardError(text) { logger("gateway").notice("First configuration written", metadata: $0) }
    }

    private func load(overlay: [String: String]) throws(CommandFailure) -> ConfigurationFile {
        let file = try ConfigurationFile(
            path: configuration,
            overlay: overlay,
            strictModes: strictModes,
            consequence: "nothing was started"
        )
        if !file.warnings.isEmpty {
            LogOutput.logToStandardError(file.warnings) {
                logger("gateway").warning("Configuration has warnings", metadata: $0)
            }
        }
        return file
    }

    private func serve(
        _ file: ConfigurationFile,
        overlay: [String: String],
        sandbox: Sandbox.Addresses?,
        emit: @escaping @Sendable (String) -> Void
    ) async throws(CommandFailure) {
        let metrics = MetricRegistry()
        // Once per process, and this is the only command that measures.
        MetricsSystem.bootstrap(metrics)
        let options = GatewayOptions(
            output: output,
            logLevel: level,
            logsAccess: logsAccess,
            metrics: metrics,
            handlesSignals: true,
            serviceNotifier: ServiceNotifier(),
            descriptorLimit: Descriptor.raiseLimit(),
            passedSockets: try passedSockets(),
            configuration: ConfigurationSource(
                path: configuration,
                overlay: overlay,
                strictModes: strictModes,
                file: file
            )
        )
        let gateway = try await Gateway(plan: file.plan, options: options)
        // Somebody who runs the sandbox wants to be shown around; a service manager has the line of the log.
        if Console.isOutputTerminal || sandbox != nil {
            emit(Banner(gateway: gateway, routes: await gateway.control.routes(), sandbox: sandbox).text)
        }
        let running = RunningGateways(environment: Console.environment)
        running.announce(
            gateway.plan,
            configuration: SystemConfigFiles().absolutePath(configuration),
            admin: gateway.admin
        )
        defer { running.withdraw() }
        try await gateway.run()
    }

    private func passedSockets() throws(CommandFailure) -> PassedSockets {
        do throws(ListenerError) {
            let environment = ProcessInfo.processInfo.environment
            return try PassedSockets(PassedDescriptors.range(environment: environment, process: getpid()))
        } catch {
            throw CommandFailure(.failed, error.description)
        }
    }

    private func logger(_ label: String) -> Logger { output.logger("authgateway.\(label)", level: level) }
}
