import Foundation
import GatewayCore
import GatewayFiles
import GatewayTokenClient
import Logging

/// The tokens of a gateway that does not run: the same keepers on the same store, audited in the same log.
///
/// The lock of the state directory is held meanwhile, so that no gateway starts on what is being changed.
struct OfflineTokens: Sendable {
    let control: OperatorControl
    let live: LivePlan
    let storage: Storage
    let endpoint: AssertionEndpoint
    private let client: AsyncHTTPTokenEndpoint
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
        client = AsyncHTTPTokenEndpoint(version: GatewayVersion.current)
        endpoint = AssertionEndpoint(endpoint: client)
        let sources = CredentialSources(
            credentials: plan.credentials,
            parts: CredentialSources.Parts(
                key: storage.key,
                store: storage.tokens,
                endpoint: endpoint,
                programs: SystemProgramRunner(),
                audit: storage.recorder,
                onAuditFailure: plan.audit.onFailure,
                feed: AuditFeed(audit: storage.audit, metrics: MetricRegistry(), logger: logger),
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

    func close() async {
        await client.shutdown()
        await storage.close()
    }

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
