package import GatewayHTTP
package import GatewayProxy
import GatewayStrategies
import GatewayTokens

/// Explains requests with the data plane that serves them.
package struct Explainer: ExplanationControl {
    let live: LivePlan
    let proxy: ProxyServer
    /// nil where the token store was not looked at.
    let control: (@Sendable () -> OperatorControl)?
    let archive: RequestArchive
    let source: Explanation.Source
    let clock: any GatewayClock
    /// nil for those that are open.
    var listeners: [BoundListener]?

    package init(
        live: LivePlan,
        proxy: ProxyServer,
        control: (@Sendable () -> OperatorControl)?,
        archive: RequestArchive,
        source: Explanation.Source,
        clock: any GatewayClock,
        listeners: [BoundListener]? = nil
    ) {
        self.live = live
        self.proxy = proxy
        self.control = control
        self.archive = archive
        self.source = source
        self.clock = clock
        self.listeners = listeners
    }

    package func explain(_ question: ExplanationQuestion) async -> Result<ExplanationAnswer, GatewayProblem> {
        let input: ExplainInput
        do throws(UnusableInput) {
            input = try ExplainInput(question.input, knowsHost: knowsHost)
        } catch {
            return .failure(GatewayProblem(.requestRefused, error.message))
        }
        switch input {
        case .request(let request): return await explain(request, as: question.client)
        case .requestID(let id): return .success(ExplanationAnswer(await archive.history(of: id, for: question.asker)))
        }
    }

    private func knowsHost(_ name: String) -> Bool {
        let name = name.lowercased()
        return live.plan.routes.contains { $0.upstream.host == name || $0.matchHosts.contains(name) }
    }

    private func explain(
        _ request: DescribedRequest,
        as client: String?
    ) async -> Result<ExplanationAnswer, GatewayProblem> {
        let clients = live.plan.access.clients.map(\.name)
        if let client, !clients.contains(client) {
            let hint = Suggestion.hint(for: client, in: clients)
            let detail = "access.clients has no client \"\(LogText.clean(client))\"\(hint)"
            return .failure(GatewayProblem(.requestRefused, detail))
        }
        guard let judgement = await proxy.judge(request, as: client, listeners: listeners) else {
            return .failure(GatewayProblem(.overloaded, "No event loop of the gateway answered within a second."))
        }
        let status = await status(of: judgement.credential)
        let explanation = Explanation(
            judgement,
            status: status,
            source: source,
            userFields: StrategyCatalog.builtIn.userFields,
            at: clock.now().wall
        )
        return .success(ExplanationAnswer(explanation))
    }

    private func status(of credential: RequestJudgement.CredentialUse?) async -> TokenStatus? {
        guard let credential, credential.hasToken, let control else { return nil }
        return try? await control().token(credential.name).get()
    }
}
