import ArgumentParser
import GatewayApp

struct PlanCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "plan",
        abstract: "Show what the configuration means, without secrets, and what a reload would change.",
        discussion: """
            Examples:
              authgateway plan
              authgateway plan --config new.yaml --against gateway.yaml
              authgateway plan --json | jq '.routes[].upstream'

            Asks the running gateway what a reload would add (+), change (~) and drop (-).
            """
    )

    @OptionGroup var config: ConfigOption

    @Option(help: ArgumentHelp("Compare with this configuration, not with the running gateway.", valueName: "file"))
    var against: String?

    @OptionGroup var json: JSONFlag

    private static let consequence = "there is no plan"

    func run() async throws(CommandFailure) {
        var file = try read()
        var notes = ""
        let changes: [PlanChange]?
        let title: String
        if let against {
            let earlier = try ConfigurationFile(path: against, consequence: "there is nothing to compare with")
            changes = ServedPlan(PlanDefinitions(earlier.plan), key: ServedPlan.newKey()).changes(to: file.plan)
            title = against
        } else {
            title = "the running gateway"
            do throws(CommandFailure) {
                let served = try await Self.served(file.plan)
                if let sandbox = served.sandbox {
                    file = try read(sandbox)
                    notes = "The gateway runs with --sandbox, so its variables count here, too.\n"
                }
                changes = served.changes(to: file.plan)
            } catch  where error.status == .configuration {
                throw error
            } catch {
                changes = nil
                notes = "Not compared with a running gateway: \(error.description)\n"
            }
        }
        let summary = PlanSummary(file.plan)
        Console.writeError(file.warnings + notes)
        let comparison = changes.map { "\nCompared with \(title):\n\(PlanChange.text($0))" } ?? ""
        let output = Output(plan: summary, changes: changes)
        Console.write(try json.text(of: output, or: summary.text() + comparison))
    }

    private func read(_ overlay: [String: String] = [:]) throws(CommandFailure) -> ConfigurationFile {
        let file = try ConfigurationFile(path: config.path, overlay: overlay, consequence: Self.consequence)
        if let problem = file.plan.tlsProblem {
            throw CommandFailure(.configuration, "\(config.name): error: \(problem)\n\(Self.consequence).")
        }
        return file
    }

    /// Where the gateway of this configuration would answer, with the token that it has left in its state directory.
    private static func served(_ plan: Plan) async throws(CommandFailure) -> ServedPlan {
        let client = AdminClient(plan.admin, stateDirectory: plan.stateDirectory)
        return try await client.ask(AdminAPI.operations.plan)
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

struct ReloadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload",
        abstract: "Make the running gateway read its configuration again, and show the result.",
        discussion: """
            Examples:
              authgateway plan && authgateway reload
              authgateway reload --json | jq '.changes[] | select(.kind != "kept")'

            The new configuration is served whole or not at all. Secrets and certificates
            are read again. Exit code 3 when it was refused, 4 when no gateway answers.
            """
    )

    @OptionGroup var gateway: RunningGatewayOptions

    func run() async throws(CommandFailure) {
        let report = try await gateway.gateway().client.ask(AdminAPI.operations.reload)
        let isNew = report.changes.contains { $0.kind != .kept }
        let effect = isNew ? PlanChange.text(report.changes) : "The gateway already ran this configuration.\n"
        let text = try gateway.json.text(of: report, or: "Loaded.\n" + effect)
        guard report.outcome == .loaded else {
            if gateway.json.isOn { Console.write(text) }
            throw CommandFailure(report.outcome == .refused ? .configuration : .failed, report.problems)
        }
        Console.writeError(report.warnings)
        Console.write(text)
    }
}
