import GatewayAdmin
import GatewayCore
import GatewayProxy
import GatewayStrategies
import GatewayTokenClient
import Logging

/// What `plan`, `config schema` and `check --acquire` do. They read the configuration and touch nothing.
package enum PlanOperation {
    package static func schema() -> String { ConfigSchema.text(.builtIn) }

    /// Certificates and keys included, which the configuration only names.
    private static func readWhole(_ path: String, consequence: String) throws(CommandFailure) -> ConfigurationFile {
        let file = try ConfigurationFile(path: path, consequence: consequence)
        do throws(ListenerError) {
            try ProxyServer.readTLS(of: file.plan)
        } catch {
            throw CommandFailure(.configuration, "\(path): error: \(error)\n\(consequence).")
        }
        return file
    }

    /// Fetches one token of each credential whose grant does not rotate, and keeps none.
    ///
    /// - Returns: What is for standard output, and the credentials for which it failed.
    package static func acquire(_ configuration: String) async throws(CommandFailure) -> (
        output: String, failed: [String]
    ) {
        let plan = try ConfigurationFile(path: configuration, consequence: "nothing was started").plan
        let endpoint = AsyncHTTPTokenEndpoint(version: GatewayVersion.current)
        let logger = LogOutput.standardError.logger("authgateway.tokens", level: .critical)
        let outcomes = await AcquireTrial(plan, endpoint: endpoint, logger: logger).run()
        await endpoint.shutdown()
        var (text, failed): (String, [String]) = ("", [])
        for (index, result) in outcomes.sorted(by: { $0.key < $1.key }) {
            let name = LogText.clean(plan.credentials[index].name)
            text += name
            switch result {
            case .obtained: text += ": a token was obtained.\n"
            case .notTried(let reason): text += ": not tried: \(reason).\n"
            case .failed(let problem):
                text += ": failed: \(LogText.clean(problem.detail))\n"
                failed.append(name)
            }
        }
        // Of those whose token was refused, the reason has been said.
        let refused = outcomes.compactMap { if case .failed = $0.value { $0.key } else { nil } }
        let usable = Set(plan.credentials.indices.filter { plan.credentials[$0].canBeUsedElsewhere }).subtracting(
            refused
        )
        for answer in try await WhoAmITrial(plan, credentials: usable).run(plan) {
            text += "\(answer.text).\n"
            if !answer.answer.isGood { failed.append(LogText.clean(answer.route)) }
        }
        return (text, failed)
    }

    /// The plan, and what it changes: of the gateway that runs, or of another configuration.
    ///
    /// - Parameter old: The path of that other configuration.
    package static func plan(
        _ configuration: String,
        against old: String?,
        asJSON: Bool
    ) async throws(CommandFailure) -> (output: String, warnings: String) {
        let file = try readWhole(configuration, consequence: "there is no plan")
        let summary = PlanSummary(file.plan)
        var warnings = file.warnings
        let changes: [PlanChange]?
        let title: String
        if let old {
            let earlier = try ConfigurationFile(path: old, consequence: "there is nothing to compare with")
            changes = ServedPlan(PlanDefinitions(earlier.plan), key: ServedPlan.newKey()).changes(to: file.plan)
            title = old
        } else {
            title = "the running gateway"
            do throws(CommandFailure) {
                changes = try await served(file.plan).changes(to: file.plan)
            } catch {
                changes = nil
                warnings += "Not compared with a running gateway: \(error.description)\n"
            }
        }
        guard !asJSON else { return (try JSONText.pretty(Output(plan: summary, changes: changes)), warnings) }
        let comparison = changes.map { "\nCompared with \(title):\n\(PlanChange.text($0))" } ?? ""
        return (summary.text() + comparison, warnings)
    }

    /// Where the gateway of this configuration would answer, with the token that it has left in its state directory.
    private static func served(_ plan: Plan) async throws(CommandFailure) -> ServedPlan {
        let client = AdminClient(plan.admin, stateDirectory: plan.stateDirectory)
        return try await client.ask(AdminAPI.plan)
    }

    /// The plan's own keys, and `changes` beside them.
    private struct Output: Encodable {
        let plan: PlanSummary
        let changes: [PlanChange]?

        enum CodingKeys: CodingKey { case changes }

        func encode(to encoder: any Encoder) throws {
            try plan.encode(to: encoder)
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encodeIfPresent(changes, forKey: .changes)
        }
    }
}
