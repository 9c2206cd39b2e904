import ArgumentParser
import Foundation
import GatewayApp
import GatewayFiles
import GatewayHTTP
import GatewayProxy
import GatewaySandbox
import Logging
import Metrics

struct RunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Serve the routes of the configuration until a signal.",
        discussion: """
            Examples:
              authgateway run
              authgateway run --sandbox --token-lifetime 30
              authgateway run --config /etc/authgateway/gateway.yaml --log-level debug

            With --sandbox in an empty folder, a gateway.yaml is written first, with a
            sandbox.yaml that it includes only then.

            A change of the configuration is picked up by itself; SIGHUP and `authgateway
            reload` ask for it at once. SIGTERM and SIGINT stop it gracefully: requests
            under way are finished within limits.drain. A second signal ends it at once.

            On a terminal it also stops when the terminal is closed; with nohup it goes
            on. Logs go to standard error, as text on a terminal and as JSON otherwise.
            """
    )

    @OptionGroup var config: ConfigOption

    @OptionGroup var strictModes: StrictModesFlag

    @Flag(
        help:
            "Also start local authorization servers and upstreams; the configuration reaches them through SANDBOX_ variables."
    )
    var sandbox = false

    @OptionGroup var tokens: SandboxTokenOption

    @Option(help: "trace, debug, info, notice, warning, error or critical.")
    var logLevel = GatewayRun.usualLogLevel

    @Flag(help: "Log one line per finished request.")
    var accessLog = false

    /// Returns after the graceful stop.
    func run() async throws(CommandFailure) {
        var run = GatewayRun(config: config)
        run.strictModes = strictModes.isOn
        run.sandbox = sandbox
        run.tokenLifetime = tokens.tokenLifetime
        run.logLevel = logLevel
        run.accessLog = accessLog
        try await run()
    }
}

/// A run of the gateway until a signal.
struct GatewayRun {
    static let usualLogLevel = "info"

    let config: ConfigOption
    var strictModes = false
    var sandbox = false
    var tokenLifetime = SandboxTokenOption.usual
    var logLevel = usualLogLevel
    var accessLog = false

    init(config: ConfigOption) { self.config = config }

    /// `run` as services start it. ArgumentParser would take a fifth of the time to the first request.
    ///
    /// - Parameter arguments: Without the name of the program.
    /// - Returns: nil for everything else, and for what might be wrong.
    init?(usual arguments: [String]) {
        guard arguments.first == "run" else { return nil }
        var words = arguments.dropFirst()
        var file: String?
        while let word = words.popFirst() {
            switch word {
            case "--strict-modes": strictModes = true
            case "--config" where file == nil, "-c" where file == nil:
                guard let name = words.popFirst(), !name.isEmpty, !name.hasPrefix("-") else { return nil }
                file = name
            default: return nil
            }
        }
        config = ConfigOption(file: file)
    }

    /// Returns after the graceful stop.
    func callAsFunction() async throws(CommandFailure) {
        guard let level = Logger.Level(rawValue: logLevel) else {
            let levels = Logger.Level.allCases.map(\.rawValue).joined(separator: ", ")
            throw CommandFailure(.usage, "there is no log level \"\(LogText.clean(logLevel))\"; levels: \(levels)")
        }
        guard sandbox else { return try await serve(try load(level, overlay: [:]), level) }
        if !config.isNamed { try writeStarter(level) }
        var options = Sandbox.Options()
        options.tokenLifetime = tokenLifetime
        let sandbox = try await Sandbox.start(options, logger: Self.logger("sandbox", level))
        do throws(CommandFailure) {
            let file = try load(level, overlay: sandbox.environment)
            try await serve(file, level, overlay: sandbox.environment, sandbox: sandbox.addresses)
        } catch {
            await sandbox.stop()
            throw error
        }
        await sandbox.stop()
    }

    private func writeStarter(_ level: Logger.Level) throws(CommandFailure) {
        guard FileStatus.owner(of: config.name) == nil else { return }
        // A folder that this user cannot list is hardly ever one to write to, and writing says why.
        let names = (try? FileManager.default.contentsOfDirectory(atPath: ".")) ?? []
        guard StarterConfiguration.mayBegin(among: names) else {
            let advice = "run this in an empty folder, or write a configuration here with authgateway init"
            throw CommandFailure(
                .configuration,
                "\(config.name): no such file, and this folder is not empty; \(advice)"
            )
        }
        let files = try StarterConfiguration.write(to: config.name)
        let text = "Wrote \(files), a configuration to begin with. The gateway picks up your changes.\n"
        LogOutput.logToStandardError(text) {
            Self.logger("gateway", level).notice("First configuration written", metadata: $0)
        }
    }

    private func load(_ level: Logger.Level, overlay: [String: String]) throws(CommandFailure) -> ConfigurationFile {
        let file = try ConfigurationFile(
            path: config.path,
            overlay: overlay,
            strictModes: strictModes,
            consequence: "nothing was started"
        )
        if !file.warnings.isEmpty {
            LogOutput.logToStandardError(file.warnings) {
                Self.logger("gateway", level).warning("Configuration has warnings", metadata: $0)
            }
        }
        return file
    }

    private func serve(
        _ file: ConfigurationFile,
        _ level: Logger.Level,
        overlay: [String: String] = [:],
        sandbox: Sandbox.Addresses? = nil
    ) async throws(CommandFailure) {
        let metrics = MetricRegistry()
        // Once per process, and this is the only command that measures.
        MetricsSystem.bootstrap(metrics)
        let options = GatewayOptions(
            output: .standardError,
            logLevel: level,
            logsAccess: accessLog,
            metrics: metrics,
            handlesSignals: true,
            serviceNotifier: ServiceNotifier(),
            descriptorLimit: Descriptor.raiseLimit(),
            passedSockets: try passedSockets(),
            configuration: ConfigurationSource(
                path: config.name,
                overlay: overlay,
                strictModes: strictModes,
                file: file
            )
        )
        let gateway = try await Gateway(plan: file.plan, options: options)
        // Somebody who runs the sandbox wants to be shown around; a service manager has the line of the log.
        if Console.isOutputTerminal || sandbox != nil {
            Console.write(Banner(gateway: gateway, routes: await gateway.control.routes(), sandbox: sandbox).text)
        }
        let running = RunningGateways(environment: Console.environment)
        running.announce(
            gateway.plan,
            configuration: SystemConfigFiles().absolutePath(config.name),
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

    private static func logger(_ label: String, _ level: Logger.Level) -> Logger {
        LogOutput.standardError.logger("authgateway.\(label)", level: level)
    }
}
