import Foundation
import GatewayApp
import GatewayEvents
import GatewayFiles
import GatewayHTTP
import GatewayProxy
import GatewayTokenClient
import GatewayTokenStores
import GatewayTokens
import Logging
import NIOCore
import NIOPosix

/// The tokens of a gateway that does not run: the same keepers on the same store, audited in the same log.
///
/// The lock of the state directory is held meanwhile, so that no gateway starts on what is being changed.
struct OfflineTokens: Sendable {
    let control: OperatorControl
    let live: LivePlan
    let storage: Storage
    let onAuditFailure: AuditPlan.OnFailure

    /// - Parameters:
    ///   - mayBegin: Whether to create a state directory that is not there.
    ///   - failure: Why the gateway could not be asked.
    init(configuration: String, mayBegin: Bool, after failure: CommandFailure) async throws(CommandFailure) {
        let plan = try Self.plan(configuration, consequence: "nothing was changed", after: failure)
        onAuditFailure = plan.audit.onFailure
        guard plan.tokens.store != .memory else {
            throw CommandFailure(
                .unreachable,
                "\(failure.description)\nwith tokens.store: memory there is no token without it"
            )
        }
        guard mayBegin || FileManager.default.fileExists(atPath: plan.stateDirectory) else { throw failure }
        let output = LogOutput.standardError
        let (clock, logger) = (SystemClock(), output.logger("authgateway.tokens", level: .error))
        do throws(StateError) {
            storage = try await Storage(Storage.Places(plan), clock: clock, logger: logger)
        } catch {
            throw CommandFailure(
                .unreachable,
                "\(failure.description)\nand its files cannot be used: \(error.description)"
            )
        }
        // No gateway answers for as long as this process holds the lock: others must find nothing to send.
        AdminToken.remove(in: plan.stateDirectory)
        let sources = CredentialSources(
            credentials: plan.credentials,
            parts: CredentialSources.Parts(
                key: storage.key,
                store: storage.tokens,
                endpoint: AssertionEndpoint(endpoint: OutgoingHTTP(version: GatewayVersion.current)),
                programs: SystemProgramRunner(),
                audit: storage.recorder,
                onAuditFailure: plan.audit.onFailure,
                feed: AuditEventQueue(audit: storage.audit, metrics: MetricRegistry(), logger: logger),
                locks: storage.locks,
                start: { _ in },
                clock: clock,
                logger: logger
            )
        )
        live = LivePlan(plan: plan, sources: sources, at: clock.now().wall, digest: storage.key.digest(of:))
        control = OperatorControl(
            live,
            reloader: nil,
            readiness: ReadinessState(),
            storage: storage,
            clock: clock,
            isOffline: true
        )
        Console.writeError("No gateway runs here; this works on its files in \(LogText.clean(plan.stateDirectory)).\n")
    }

    func close() async { await storage.close() }

    /// The plan of a configuration that a command needs whole, since no gateway answers.
    ///
    /// - Parameters:
    ///   - consequence: What a mistake in it means for the command.
    ///   - failure: Why the gateway could not be asked.
    static func plan(
        _ path: String,
        consequence: String,
        after failure: CommandFailure
    ) throws(CommandFailure) -> Plan {
        do throws(CommandFailure) {
            return try ConfigurationFile(path: path, consequence: consequence).plan
        } catch {
            let advice = "without a gateway its whole configuration is needed, secrets included:"
            throw CommandFailure(.unreachable, "\(failure.description)\n\(advice)\n\(error.description)")
        }
    }
}

extension Storage {
    /// For a command. Holds the lock of the state directory until it is closed, so that no gateway starts meanwhile.
    static func ofStoppedGateway(_ places: Places) async throws(CommandFailure) -> Storage {
        let logger = LogOutput.standardError.logger("authgateway.audit", level: .error)
        do throws(StateError) {
            return try await Storage(places, clock: SystemClock(), logger: logger)
        } catch {
            throw CommandFailure(error)
        }
    }
}

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
            for keeper in offline?.live.sources.allKeepers ?? [] { await keeper.loadForDisplay() }
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
                feed: AuditEventQueue(audit: NoAuditLog(), metrics: MetricRegistry(), logger: logger),
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
private final class NoObserver: ExchangeObserver {
    func finished(_ record: borrowing ExchangeRecord) {}
}

private struct NoEndpoint: TokenEndpoint {
    func send(_ request: TokenRequest, deadline: Duration) async -> Result<TokenReply, TokenTransportFailure> {
        .failure(TokenTransportFailure(.connectionRefused, mayHaveBeenProcessed: false))
    }
}
