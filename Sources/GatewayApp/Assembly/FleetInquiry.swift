package import GatewayHTTP
package import GatewayTokens

/// Asks the gateways that share the token store.
package struct FleetInquiry: Sendable {
    /// Beside ``FleetQuestion/limit``, for a database that does not answer. A report is worth more than an answer to an
    /// operation, which holds already.
    private static let (reportPatience, patience): (Duration, Duration) = (.seconds(1), .milliseconds(400))

    let fleet: any SharedFleet
    let clock: any GatewayClock

    /// nil for a store that no other gateway uses.
    package init?(_ store: any TokenStore, clock: any GatewayClock) {
        guard let fleet = store.sharedFleet else { return nil }
        self.fleet = fleet
        self.clock = clock
    }

    package func report() async -> Result<FleetReport, TokenStoreError> {
        await ask(from: nil, within: FleetQuestion.limit + Self.reportPatience, after: .zero).map { FleetReport($0) }
    }

    /// Whether the other gateways have followed an operation that holds here.
    ///
    /// - Parameter begun: When an operator asked who is in a hurry.
    private func following(
        inHurrySince begun: MonotonicTime?,
        from own: String
    ) async -> FleetFollowing {
        guard let begun else { return await following(from: own) }
        // One look at least that others had time for.
        let spent = min(clock.monotonic() - begun, FleetQuestion.limit - Self.patience)
        return await following(from: own, after: spent)
    }

    /// Whether the other gateways have followed what was done before.
    ///
    /// - Parameters:
    ///   - own: The gateway that did it.
    ///   - spent: How much of ``FleetQuestion/limit`` is over.
    func following(from own: String, after spent: Duration = .zero) async -> FleetFollowing {
        let limit = max(FleetQuestion.limit - spent, .zero) + Self.patience
        switch await ask(from: own, within: limit, after: spent) {
        case .success(let question): return FleetFollowing(question)
        case .failure(let error): return FleetFollowing(unknown: error.reason)
        }
    }

    /// Adds to an operator's answer which gateways have not followed. A failure that took nothing away stays as it is.
    ///
    /// - Parameter begun: When a lock began, since an operator who locks is in a hurry; nil for any other operation, which may have
    ///   waited for an authority.
    func addingWarning(
        _ result: Result<OperationReport, GatewayProblem>,
        inHurrySince begun: MonotonicTime? = nil,
        from own: String
    ) async -> Result<OperationReport, GatewayProblem> {
        switch result {
        case .success(var report):
            report.tell(of: await following(inHurrySince: begun, from: own))
            return .success(report)
        case .failure(var problem):
            guard problem.hasTakenAway else { return result }
            let following = await following(inHurrySince: begun, from: own)
            if let sentence = following.sentence { problem.detail += " \(sentence)" }
            return .failure(problem)
        }
    }

    private func ask(
        from own: String?,
        within limit: Duration,
        after spent: Duration
    ) async -> Result<FleetQuestion, TokenStoreError> {
        let answer = await Deadline.value(within: limit) {
            () async -> Result<FleetQuestion, TokenStoreError> in
            do throws(TokenStoreError) {
                return .success(try await look(from: own, after: spent))
            } catch {
                return .failure(error)
            }
        }
        return answer ?? .failure(.unavailable("the token database did not answer in time"))
    }

    private func look(from own: String?, after spent: Duration) async throws(TokenStoreError) -> FleetQuestion {
        let begun = clock.monotonic() - spent
        var question = FleetQuestion(try await fleet.call(), from: own)
        while true {
            let members = try await fleet.members()
            guard let pause = question.note(members, after: clock.monotonic() - begun),
                (try? await clock.sleep(for: pause)) != nil
            else { return question }
        }
    }

    package static let notShared = GatewayProblem(
        .requestRefused,
        "No other gateway shares the tokens of this one: tokens.store is not postgres. docs/fleet.md says how gateways share them."
    )
}

/// Gives those who ask at the same time, or soon after, the same report: each one asks the database several times.
actor FleetReports {
    /// How long a report is given out, also one of a database that does not answer.
    private static let lifetime = Duration.seconds(1)

    private var last: (report: Result<FleetReport, TokenStoreError>, at: MonotonicTime)?
    private var underWay: Task<Result<FleetReport, TokenStoreError>, Never>?

    func report(of inquiry: FleetInquiry) async -> Result<FleetReport, TokenStoreError> {
        if let last, inquiry.clock.monotonic() - last.at < Self.lifetime { return last.report }
        if let underWay { return await underWay.value }
        // Goes on if the first who asked leaves.
        let task = Task { await inquiry.report() }
        underWay = task
        let report = await task.value
        last = (report, inquiry.clock.monotonic())
        underWay = nil
        return report
    }
}
