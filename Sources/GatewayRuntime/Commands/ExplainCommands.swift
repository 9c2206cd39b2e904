import GatewayCore

/// What `explain` does: asks the running gateway what would become of a request, or works it out from the configuration.
package struct ExplainCommands: Sendable {
    private let configuration: String
    private let audit: AuditPlan
    private let client: AdminClient
    private let asJSON: Bool
    private let style: TextStyle

    /// - Parameter configuration: The path of `gateway.yaml`.
    package init(configuration: String, asJSON: Bool, style: TextStyle = .current) throws(CommandFailure) {
        let settings = try OperatorSettings(running: configuration)
        audit = settings.plan.audit
        client = settings.client
        self.configuration = configuration
        self.asJSON = asJSON
        self.style = style
    }

    /// - Parameters:
    ///   - input: See ``ExplainInput``.
    ///   - name: As whom; nil for whom the request's own token names.
    /// - Returns: What is for standard output, and whether anything is known.
    /// - Throws: ``ExitStatus/usage`` when the input cannot be read.
    package func explain(
        _ input: String,
        as name: String? = nil
    ) async throws(CommandFailure) -> (output: String, isKnown: Bool) {
        _ = try Self.read(input)
        let answer = try await answer(ExplanationQuestion(input: input, client: name))
        return (try text(of: answer), answer.history?.requests.isEmpty != true)
    }

    /// Sends the request through the running gateway, and says what became of it.
    ///
    /// - Parameters:
    ///   - token: Where the client's token is: `env:NAME` or `file:PATH`.
    ///   - isConfirmed: `--yes`.
    package func send(_ input: String, token: String?, isConfirmed: Bool) async throws(CommandFailure) -> String {
        guard case .request(let request) = try Self.read(input) else {
            throw CommandFailure(.usage, "--live sends a request; an id is of one that was sent")
        }
        let secret = try token.map { reference throws(CommandFailure) in try LiveSender.token(reference) }
        let sender = try LiveSender(request, token: secret, isConfirmed: isConfirmed)
        guard let explanation = try await client.explain(ExplanationQuestion(input: input)).explanation else {
            throw CommandFailure(.failed, "the gateway does not explain this request")
        }
        let report = try await sender.send(explanation)
        let history = try await history(of: report.requestId)
        guard asJSON else { return report.text + "\n" + (history?.text(width: style.width) ?? "") }
        return try JSONText.pretty(LiveAnswer(live: report, history: history))
    }

    private struct LiveAnswer: Encodable {
        let live: LiveReport
        let history: RequestHistory?
    }

    /// The answer may have come before the gateway has noted its end.
    private func history(of id: String?) async throws(CommandFailure) -> RequestHistory? {
        guard let id else { return nil }
        var history: RequestHistory?
        for _ in 0..<10 {
            history = try await client.explain(ExplanationQuestion(input: id)).history
            if history?.requests.contains(where: { $0.status != nil }) == true { break }
            try? await Task.sleep(for: .milliseconds(100))
        }
        return history
    }

    private static func read(_ input: String) throws(CommandFailure) -> ExplainInput {
        do throws(UnusableInput) {
            return try ExplainInput(input)
        } catch {
            throw CommandFailure(.usage, error.message)
        }
    }

    private func answer(_ question: ExplanationQuestion) async throws(CommandFailure) -> ExplanationAnswer {
        do throws(CommandFailure) {
            return try await client.explain(question)
        } catch {
            guard error.status == .unreachable, !client.isAnswered(error) else { throw error }
            // Needs neither the rest of the configuration nor its secrets.
            if case .requestID(let id) = try Self.read(question.input) {
                return ExplanationAnswer(await RequestArchive(audit: audit, recent: nil).history(of: id))
            }
            let offline = try await OfflineExplainer(configuration: configuration, after: error)
            let result = await offline.explain(question)
            await offline.close()
            return try AdminClient.value(of: result)
        }
    }

    private func text(of answer: ExplanationAnswer) throws(CommandFailure) -> String {
        if let history = answer.history {
            return asJSON ? try JSONText.pretty(history) : history.text(width: style.width)
        }
        guard let explanation = answer.explanation else { return "" }
        return asJSON ? try JSONText.pretty(explanation) : painted(explanation)
    }

    private func painted(_ explanation: Explanation) -> String {
        let color: TextStyle.Color =
            switch explanation.outcome {
            case .forwarded, .answered, .tunnelled: .green
            case .waits: .yellow
            case .refused: .red
            }
        let text = explanation.text(width: style.width)
        return style.paint(explanation.verdict, color) + text.dropFirst(explanation.verdict.count)
    }
}
