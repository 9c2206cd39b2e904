import Foundation
import GatewayCore
import GatewayFiles
import GatewayProxy
import GatewayTokenStores
import GatewayTokens
import Logging
import NIOCore
import NIOPosix

/// Explains requests without a gateway: with a data plane that listens nowhere, and what the token store holds.
struct OfflineExplainer: Sendable {
    private let group: MultiThreadedEventLoopGroup
    private let offline: OfflineTokens?
    private let explainer: Explainer

    /// - Parameter failure: Why the gateway could not be asked.
    init(configuration: String, after failure: CommandFailure) async throws(CommandFailure) {
        let plan = try OfflineTokens.plan(configuration, consequence: "nothing was explained", after: failure)
        offline = try await Self.store(of: plan, configuration, after: failure)
        let clock = SystemClock()
        let live: LivePlan
        if let offline {
            live = offline.live
        } else {
            live = LivePlan(plan: plan, sources: try Self.sources(without: plan), at: clock.now().wall)
        }
        group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        do {
            let proxy = try ProxyServer(
                group: group,
                configuration: ServerFactory.configuration(of: live.plan, sources: live.sources) { _ in 0 },
                clock: clock,
                observer: NoObserver(),
                logger: LogOutput.standardError.logger("authgateway.explain", level: .error)
            )
            let control = offline?.control
            for keeper in offline?.live.sources.allKeepers ?? [] { await keeper.look() }
            explainer = Explainer(
                live: live,
                proxy: proxy,
                control: control.map { control in { @Sendable in control } },
                archive: RequestArchive(audit: plan.audit, recent: nil),
                source: control == nil ? .configuration : .store,
                clock: clock,
                listeners: plan.listeners.map { BoundListener($0) }
            )
        } catch {
            try? await group.shutdownGracefully()
            await offline?.close()
            throw CommandFailure(.failed, "the configuration cannot be served: \(LogText.clean("\(error)"))")
        }
    }

    func explain(_ question: ExplanationQuestion) async -> Result<ExplanationAnswer, GatewayProblem> {
        await explainer.explain(question)
    }

    func close() async {
        // Fails only when it was shut down before.
        try? await group.shutdownGracefully()
        await offline?.close()
    }

    // MARK: The store

    /// nil where there is none to look into.
    private static func store(
        of plan: Plan,
        _ configuration: String,
        after failure: CommandFailure
    ) async throws(CommandFailure) -> OfflineTokens? {
        let isThere = FileManager.default.fileExists(atPath: plan.stateDirectory)
        guard plan.tokens.store != .memory, isThere else { return nil }
        do throws(CommandFailure) {
            return try await OfflineTokens(configuration: configuration, mayBegin: false, after: failure)
        } catch {
            Console.writeError(error.description + "\n")
            return nil
        }
    }

    private static func sources(without plan: Plan) throws(CommandFailure) -> CredentialSources {
        let logger = LogOutput.standardError.logger("authgateway.explain", level: .error)
        let parts: CredentialSources.Parts
        do {
            parts = CredentialSources.Parts(
                key: try InstallationKey(Secret(Hexadecimal.random(bytes: InstallationKey.byteCount))),
                store: MemoryTokenStore(),
                endpoint: NoEndpoint(),
                programs: NoPrograms(),
                audit: NoAuditLog(),
                onAuditFailure: plan.audit.onFailure,
                feed: AuditFeed(audit: NoAuditLog(), metrics: MetricRegistry(), logger: logger),
                locks: try CredentialLocks(in: plan.stateDirectory),
                start: { _ in },
                clock: SystemClock(),
                logger: logger
            )
        } catch {
            throw CommandFailure(error)
        }
        return CredentialSources(credentials: plan.credentials, parts: parts)
    }
}

/// Nothing is sent anywhere.
private struct NoObserver: ExchangeObserver {
    func finished(_ record: borrowing ExchangeRecord) {}
    func denied(_ demand: CredentialRequest?, requestID: String, reason: ProblemKind) {}
}

private struct NoEndpoint: TokenEndpoint {
    func send(_ request: TokenRequest, deadline: Duration) async -> Result<TokenReply, TokenTransportFailure> {
        .failure(TokenTransportFailure(.connectionRefused, mayHaveBeenProcessed: false))
    }
}
