package import GatewayProxy
package import Logging

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
