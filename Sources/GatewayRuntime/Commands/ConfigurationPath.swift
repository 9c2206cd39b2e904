import GatewayCore
import GatewayFiles

/// Finds the configuration that a command means. What counts before what is decided by ``ConfigLocator``.
package enum ConfigurationPath {
    /// For a command that needs no gateway.
    ///
    /// - Parameter option: What `--config` says.
    package static func file(_ option: String?) -> String {
        let location = ConfigLocator.locate(
            option: option,
            variable: Console.environment(ConfigLocator.variable),
            hasStandard: { true }
        )
        guard case .file(let path) = location else { return ConfigLocator.standard }
        return path
    }

    /// Whether somebody said which file is meant. A file that was named is never made up.
    package static func isNamed(_ option: String?) -> Bool {
        option != nil || !(Console.environment(ConfigLocator.variable) ?? "").isEmpty
    }

    /// For a command that speaks to the running gateway: without a configuration here, that gateway's own one.
    ///
    /// - Throws: ``ExitStatus/usage`` when several gateways run.
    package static func ofRunningGateway(_ option: String?) throws(CommandFailure) -> String {
        let location = ConfigLocator.locate(
            option: option,
            variable: Console.environment(ConfigLocator.variable),
            hasStandard: { FileStatus.owner(of: ConfigLocator.standard) != nil },
            running: { RunningGateways(environment: Console.environment).all() }
        )
        switch location {
        case .file(let path): return path
        case .running(let gateway):
            let path = LogText.clean(gateway.configuration)
            Console.writeError("The running gateway is that of \(path) (process \(gateway.process)).\n")
            return gateway.configuration
        case .ambiguous(let gateways):
            throw CommandFailure(.usage, ConfigLocator.advice(on: gateways))
        }
    }
}
