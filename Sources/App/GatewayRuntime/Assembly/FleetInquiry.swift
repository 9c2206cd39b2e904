import GatewayCore

/// Asks the gateways that share the token store.
struct FleetInquiry: Sendable {
    /// Beside ``FleetQuestion/limit``, for a database that does not answer.
    private static let patience: Duration = .seconds(1)

    let fleet: any SharedFleet
    let clock: any GatewayClock

    /// nil for a store that no other gateway uses.
    init?(_ store: any TokenStore, clock: any GatewayClock) {
        guard let fleet = store.sharedFleet else { return nil }
        self.fleet = fleet
        self.clock = clock
    }

    func report() async -> Result<FleetReport, TokenStoreError> {
        await ask(from: nil).map { FleetReport($0) }
    }

    /// Whether the other gateways have followed what was done before.
    ///
    /// - Parameter own: The gateway that did it.
    func following(from own: String) async -> FleetFollowing {
        switch await ask(from: own) {
        case .success(let question): FleetFollowing(question)
        case .failure(let error): FleetFollowing(unknown: error.reason)
        }
    }

    /// Adds to an operator's answer which gateways have not followed. A failure that took nothing away stays as it is.
    func telling(
        _ result: Result<OperationReport, GatewayProblem>,
        from own: String
    ) async -> Result<OperationReport, GatewayProblem> {
        switch result {
        case .success(var report):
            report.tell(of: await following(from: own))
            return .success(report)
        case .failure(var problem):
            guard problem.hasTakenAway else { return result }
            if let sentence = await following(from: own).sentence { problem.detail += " \(sentence)" }
            return .failure(problem)
        }
    }

    private func ask(from own: String?) async -> Result<FleetQuestion, TokenStoreError> {
        let answer = await Deadline.value(within: FleetQuestion.limit + Self.patience) {
            () async -> Result<FleetQuestion, TokenStoreError> in
            do throws(TokenStoreError) {
                return .success(try await look(from: own))
            } catch {
                return .failure(error)
            }
        }
        return answer ?? .failure(.unavailable("the token database did not answer in time"))
    }

    private func look(from own: String?) async throws(TokenStoreError) -> FleetQuestion {
        let begun = clock.monotonic()
        var question = FleetQuestion(try await fleet.call(), from: own)
        while true {
            let members = try await fleet.members()
            guard let pause = question.note(members, after: clock.monotonic() - begun),
                (try? await clock.sleep(for: pause)) != nil
            else { return question }
        }
    }

    static let notShared = GatewayProblem(
        .requestRefused,
        "No other gateway shares the tokens of this one: tokens.store is not postgres. docs/fleet.md says how gateways share them."
    )
}
