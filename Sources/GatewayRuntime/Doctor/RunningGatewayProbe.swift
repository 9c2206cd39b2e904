import GatewayAdmin
import GatewayCore

/// Asks the gateway that uses the configuration, if one runs, for what this process must not find out by itself.
struct RunningGatewayProbe: Sendable {
    struct Answer: Sendable {
        var observation: GatewayRule.Observation
        /// Those of the running gateway by the names of the plan; nil when none answers.
        var tokens: [String: TokenStatus]?
        /// The names of its proxy listeners; nil when it did not say.
        var listeners: Set<String>?

        /// A process holds the files: nothing of them is locked or written beside it.
        var isRunning: Bool { observation != .stopped }
    }

    let plan: Plan

    func ask(within limit: Duration) async -> Answer {
        guard StateDirectory.isHeld(plan.stateDirectory) else { return Answer(observation: .stopped) }
        let plan = plan
        let answer = await Deadline.value(within: limit) { await Self.ask(plan) }
        return answer ?? Answer(observation: .silent("its admin listener does not answer in time"))
    }

    private static func ask(_ plan: Plan) async -> Answer {
        let client = AdminClient(plan.admin, stateDirectory: plan.stateDirectory)
        do throws(CommandFailure) {
            let readiness = try await client.readiness()
            let tokens = try await tokens(plan, client)
            // Needs the admin token, which another user than the gateway's does not have.
            let served = try? await client.ask(AdminAPI.plan)
            let differences = served?.changes(to: plan).filter { $0.kind != .kept }.map(\.path)
            let listeners = served.map {
                Set(($0.digest.summary.listeners + ($0.digest.summary.authz ?? []).map(\.listener)).map(\.name))
            }
            return Answer(
                observation: .running(readiness, differences: differences),
                tokens: tokens,
                listeners: listeners
            )
        } catch {
            return Answer(observation: .silent(error.description))
        }
    }

    /// Credentials that share a token are listed under the name of one of them.
    private static func tokens(
        _ plan: Plan,
        _ client: AdminClient
    ) async throws(CommandFailure) -> [String: TokenStatus] {
        var tokens: [String: TokenStatus] = [:]
        for status in try await client.ask(AdminAPI.tokens) { tokens[status.credential] = status }
        for credential in plan.credentials where tokens[credential.name] == nil {
            guard case .token = credential.strategy.behavior else { continue }
            tokens[credential.name] = try? await client.ask(AdminAPI.token, of: credential.name)
        }
        return tokens
    }
}
