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
    /// For the event `config_loaded`.
    package var configurationPath: String

    package init(
        output: LogOutput,
        logLevel: Logger.Level = .info,
        logsAccess: Bool = false,
        metrics: MetricRegistry = MetricRegistry(),
        handlesSignals: Bool = false,
        configurationPath: String = ""
    ) {
        self.output = output
        self.logLevel = logLevel
        self.logsAccess = logsAccess
        self.metrics = metrics
        self.handlesSignals = handlesSignals
        self.configurationPath = configurationPath
    }

    func logger(_ label: String) -> Logger { output.logger("authgateway.\(label)", level: logLevel) }
}
