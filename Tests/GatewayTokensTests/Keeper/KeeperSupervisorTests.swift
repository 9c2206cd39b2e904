import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Logging
import Testing

@testable import GatewayTokens

@Suite("Running keepers", .timeLimit(.minutes(5)))
struct KeeperSupervisorTests {
    private func keeper(_ name: String, _ endpoint: ScriptedTokenEndpoint) -> TokenKeeper {
        TokenKeeper(
            KeeperContext(
                name: name,
                strategyKind: "sample",
                grant: SampleGrant(),
                policy: RenewalPolicy(),
                key: CredentialKey(digest: name),
                store: RecordingTokenStore(),
                endpoint: endpoint,
                audit: RecordingAuditLog(),
                onAuditFailure: .block,
                clock: ManualClock(),
                logger: Logger(label: "test")
            )
        )
    }

    private func answer(of keeper: TokenKeeper) async -> Result<Credential, GatewayProblem> {
        let demand = CredentialRequest(route: "box", client: nil, requestID: "r1")
        return await withCheckedContinuation { done in _ = keeper.wait(for: demand) { done.resume(returning: $0) } }
    }

    @Test func oneThatIsStartedLaterRunsUntilTheStopAndOneAfterThatIsRefused() async throws {
        let host = KeeperSupervisor(clock: ManualClock())
        let run = Task { try await host.run() }
        let endpoint = ScriptedTokenEndpoint { _, _ in .token("one", expiresIn: 3600) }
        let early = keeper("early", endpoint)
        host.start(early)
        #expect(try await answer(of: early).get().generation == 1)
        run.cancel()
        try await run.value
        let late = keeper("late", endpoint)
        host.start(late)
        guard case .failure(let problem) = await answer(of: late) else {
            Issue.record("nobody runs it")
            return
        }
        #expect(problem.kind == .draining)
    }
}
