import GatewayAudit
import GatewayEvents
import GatewayHTTP
package import GatewayProxy
import GatewayTokens
package import Logging
import NIOCore
import ServiceLifecycle
import UnixSignals

/// One gateway: assembled with all its addresses taken, then run until it is told to stop.
package final class Gateway: Sendable {
    package let plan: Plan
    private let assembly: Assembly
    private let options: GatewayOptions
    private let group: ServiceGroup
    private let logger: Logger
    /// nil where the program around it handles them.
    private let signals: UnixSignalsSequence?
    private let hangUp: HangUpRule

    /// - Throws: ``CommandFailure`` that says what is wrong and what to do; nothing is left open then.
    package init(plan: Plan, options: GatewayOptions) async throws(CommandFailure) {
        self.plan = plan
        self.options = options
        logger = options.logger("gateway")
        assembly = try await Assembly(plan: plan, options: options)
        let services = assembly.services.map { service in
            // The log names the type of a service, and not what the service holds.
            let name = (service as? BackgroundService)?.name ?? "\(type(of: service))"
            return ServiceGroupConfiguration.ServiceConfiguration(service: service, serviceName: name)
        }
        var configuration = ServiceGroupConfiguration(services: services, logger: options.logger("lifecycle"))
        // The drain has a limit of its own; the rest is what one call to an authority may take.
        configuration.maximumGracefulShutdownDuration = plan.limits.drain + TokenKeeper.callDeadline + .seconds(5)
        group = ServiceGroup(configuration: configuration)
        // Signals are handled from here on and not only once it serves: a caller that reads its addresses may stop it
        // at once.
        hangUp = HangUp.rule()
        let trapped: [UnixSignal] = [.sigterm, .sigint] + (hangUp.isHandled ? [.sighup] : [])
        signals = options.handlesSignals ? await UnixSignalsSequence(trapping: trapped) : nil
    }

    /// Where other proxies ask, with the real ports.
    package var engineListeners: [BoundListener] { assembly.proxy.bound.filter { $0.engine != nil } }
    /// Where clients send requests, with the real ports.
    package var listeners: [BoundListener] { assembly.proxy.bound.filter { $0.engine == nil } }
    /// Where the admin listener answers, with its real port.
    package var admin: BoundListener { assembly.adminPlace }
    package var control: OperatorControl { assembly.makeControl() }

    /// Whether ``run()`` has come to where requests are taken.
    package var isServing: Bool { assembly.readiness.phase == .serving }

    /// Serves until ``stop()`` or a signal, drains, and closes everything.
    package func run() async throws(CommandFailure) {
        do throws(CommandFailure) {
            try await record((.gatewayStarted, startDetail), (.configLoaded, configurationDetail))
            try await serve()
        } catch {
            await assembly.close()
            throw error
        }
        assembly.observer.collect()
        try? await record((.gatewayStopped, [:]))
        await assembly.close()
        logger.notice("Gateway stopped")
    }

    /// Begins the graceful stop; ``run()`` returns when it is complete.
    package func stop() async { await group.triggerGracefulShutdown() }

    private func serve() async throws(CommandFailure) {
        logger.notice(
            "Gateway started",
            metadata: [
                "version": "\(GatewayVersion.current)", "routes": "\(plan.routes.count)",
                "proxy": "\(listeners.map(\.boundText).joined(separator: ", "))", "admin": "\(admin.boundText)",
            ]
        )
        let (group, signals, hangUp, logger, reloader) = (group, signals, hangUp, logger, assembly.reloader)
        do {
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                if let signals {
                    tasks.addTask { await Self.obey(signals, hangUp, group, reloader, logger) }
                }
                tasks.addTask { await Self.settle() }
                if let notifier = options.serviceNotifier {
                    tasks.addTask { [assembly] in await Self.reportLife(of: assembly.group, to: notifier) }
                }
                // Not a task of its own: when the services end, so does the wait for signals.
                try await group.run()
                tasks.cancelAll()
            }
        } catch {
            throw CommandFailure(.failed, "the gateway failed: \(LogText.clean("\(error)"))")
        }
    }

    /// Gives back memory that only the start and the first requests needed.
    private static func settle() async {
        var pause = Duration.milliseconds(500)
        while (try? await Task.sleep(for: pause)) != nil {
            ProgramPages.giveBack()
            pause = min(pause * 2, .seconds(30))
        }
    }

    /// Tells the service manager, as often as it wants to hear it, that every event loop still takes its turn.
    private static func reportLife(of loops: any EventLoopGroup, to notifier: ServiceNotifier) async {
        guard let interval = notifier.manager.watchdogInterval else { return }
        repeat {
            for loop in loops.makeIterator() {
                // Fails only when the loop was shut down.
                try? await loop.submit {}.get()
            }
            notifier.send(.watchdog)
        } while (try? await Task.sleep(for: interval)) != nil
    }

    /// The first signal begins the graceful stop, the second ends the process at once. A hang-up reloads, or stops where it
    /// tells that the terminal was closed.
    private static func obey(
        _ signals: UnixSignalsSequence,
        _ hangUp: HangUpRule,
        _ group: ServiceGroup,
        _ reloader: Reloader?,
        _ logger: Logger
    ) async {
        var isStopping = false
        for await signal in signals {
            if signal == .sighup {
                if hangUp.action(terminalIsGone: HangUp.terminalIsGone) == .reload {
                    reloader?.request(.signal)
                    continue
                }
                // The system and the shell may both tell of one closed terminal.
                if isStopping { continue }
            }
            guard !isStopping else { Console.exit(.failed) }
            isStopping = true
            logger.notice("Stopping; a second signal stops the gateway at once", metadata: ["signal": "\(signal)"])
            await group.triggerGracefulShutdown()
        }
    }

    private var startDetail: [String: String] {
        var detail = ["version": GatewayVersion.current]
        detail["rolled_back"] = assembly.storage.anchor?.contradiction
        return detail
    }

    private var configurationDetail: [String: String] {
        var detail = ["routes": String(plan.routes.count), "credentials": String(plan.credentials.count)]
        if let path = options.configuration?.path { detail["file"] = path }
        return detail
    }

    private func record(
        _ events: (name: TokenEvent.Name, detail: [String: String])...
    ) async throws(CommandFailure) {
        let now = SystemClock().now().wall
        do throws(AuditError) {
            // In the local log: a gateway starts while the database is away.
            try await assembly.storage.audit.record(
                events.map { TokenEvent(at: now, name: $0.name, detail: $0.detail) }
            )
        } catch {
            for (name, _) in events {
                logger.error(
                    "Audit event not written",
                    metadata: ["event": "\(name.rawValue)", "reason": "\(error.reason)"]
                )
                if plan.audit.onFailure == .block { throw CommandFailure(.failed, error.reason) }
            }
        }
    }
}

/// How a gateway runs, beside its plan: what the command line decides.
package struct GatewayOptions: Sendable {
    package var output: LogOutput
    package var logLevel: Logger.Level
    /// One line per finished exchange.
    package var logsAccess: Bool
    package var metrics: MetricRegistry
    /// Stop on SIGTERM and SIGINT; false for gateways inside of tests.
    package var handlesSignals: Bool
    /// nil where no service manager is told.
    package var serviceNotifier: ServiceNotifier?
    /// How many the process may have; nil where they are not shared out.
    package var descriptorLimit: Int?
    /// Sockets that a service manager has opened for the listeners.
    package var passedSockets: PassedSockets
    /// Where the plan came from and where a reload finds the next one; without it there is no reload.
    package var configuration: ConfigurationSource?

    package init(
        output: LogOutput,
        logLevel: Logger.Level = .info,
        logsAccess: Bool = false,
        metrics: MetricRegistry = MetricRegistry(),
        handlesSignals: Bool = false,
        serviceNotifier: ServiceNotifier? = nil,
        descriptorLimit: Int? = nil,
        passedSockets: PassedSockets = .none,
        configuration: ConfigurationSource? = nil
    ) {
        self.output = output
        self.logLevel = logLevel
        self.logsAccess = logsAccess
        self.metrics = metrics
        self.handlesSignals = handlesSignals
        self.serviceNotifier = serviceNotifier
        self.descriptorLimit = descriptorLimit
        self.passedSockets = passedSockets
        self.configuration = configuration
    }

    func logger(_ label: String) -> Logger { output.logger("authgateway.\(label)", level: logLevel) }
}
