import GatewayCore

/// What `check` and `plan` do. They read the configuration and touch nothing.
package enum PlanOperation {
    /// - Returns: What is for standard output, and the warnings for standard error.
    package static func check(_ configuration: String) throws(CommandFailure) -> (output: String, warnings: String) {
        let file = try ConfigurationFile(path: configuration, consequence: "nothing was started")
        let (routes, credentials) = (file.plan.routes.count, file.plan.credentials.count)
        let output = "\(configuration): \(count(routes, "route")), \(count(credentials, "credential")), no problem.\n"
        return (output, file.warnings)
    }

    package static func plan(
        _ configuration: String,
        asJSON: Bool
    ) throws(CommandFailure) -> (output: String, warnings: String) {
        let file = try ConfigurationFile(path: configuration, consequence: "there is no plan")
        let summary = PlanSummary(file.plan)
        return (asJSON ? summary.json() : summary.text(), file.warnings)
    }

    private static func count(_ number: Int, _ noun: String) -> String { "\(number) \(noun)\(number == 1 ? "" : "s")" }
}
