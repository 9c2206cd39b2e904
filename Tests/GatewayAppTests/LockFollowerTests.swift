import Foundation
import GatewayConfiguration
import GatewayEvents
import GatewayHTTP
import GatewayTesting
import GatewayTokenStores
import Logging
import Synchronization
import Testing

@testable import GatewayApp
@testable import GatewayProxy
@testable import GatewayTokens

/// A strategy whose tokens are those of ``SampleGrant``.
private struct SampleStrategy: AuthStrategy {
    static let kind = "sample"
    let behavior: AuthBehavior

    init(secret: String) { behavior = .token(SampleGrant(identity: .sample(secret: secret))) }
    init?(from fields: ConfigFields) { return nil }
}

private enum Event: Hashable {
    /// The use of these tokens is to end.
    case asked([String], areAllLocked: Bool)
    case ended
    case answered(FleetMark?)

    var isAnswer: Bool {
        guard case .answered = self else { return false }
        return true
    }
}

/// What a gateway acknowledges of locks, others take for done.
@Suite("Following the locks of other gateways", .timeLimit(.minutes(1)))
final class LockFollowerTests {
    private let folders = (1...2).map { _ in
        FileManager.default.temporaryDirectory.appendingPathComponent("follower-\(UUID().uuidString)").path
    }
    private let store = StoreOfLocks()
    private let other: CredentialLocks
    private let follower: LockFollower
    private let events: Watched<[Event]>
    /// The workers that have not ended the use.
    private let silent: Watched<[Int]>
    private let mark = FleetMark(7)
    private static let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    init() throws {
        for folder in folders {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        }
        other = try CredentialLocks(in: folders[0], shared: store)
        let own = try CredentialLocks(in: folders[1], shared: store)
        let (events, silent) = (Watched([Event]()), Watched([Int]()))
        (self.events, self.silent) = (events, silent)
        follower = LockFollower(
            own,
            live: try Self.live(own, in: folders[1]),
            audit: RecordingAuditLog(),
            clock: SystemClock(),
            logger: Self.quiet,
            withdraw: { sources in
                guard !sources.isEmpty else { return [] }
                let areLocked = sources.allSatisfy { source in
                    guard case .unavailable(let problem) = source.current(at: MonotonicTime(nanoseconds: 0)) else {
                        return false
                    }
                    return problem.kind == .locked
                }
                events.update { $0.append(.asked(sources.map(\.name), areAllLocked: areLocked)) }
                // Time for an answer that does not wait for the end.
                _ = try? await events.until(within: .milliseconds(100)) { $0.contains { $0.isAnswer } }
                events.update { $0.append(.ended) }
                return silent.value
            }
        )
    }

    deinit { for folder in folders { try? FileManager.default.removeItem(atPath: folder) } }

    private static func live(_ locks: CredentialLocks, in folder: String) throws -> LivePlan {
        let span = SourceSpan(file: 0, line: 1, column: 1)
        let credentials = ["box", "mail"].map { name in
            CredentialPlan(
                name: name,
                strategyKind: "sample",
                strategy: SampleStrategy(secret: name),
                policy: RenewalPolicy(),
                span: span
            )
        }
        let plan = Plan(
            stateDirectory: folder,
            workers: .exactly(1),
            listeners: [],
            admin: AdminPlan(address: .tcp(host: "127.0.0.1", port: 0)),
            access: AccessPlan(clients: [], allowedOrigins: [], requireClient: .auto),
            audit: AuditPlan(path: "", usage: .none, retention: .seconds(1), onFailure: .degrade),
            tokens: TokenPlan(store: .memory, path: "", key: .file(path: "")),
            limits: Limits(),
            credentials: credentials,
            routes: []
        )
        let (audit, clock) = (RecordingAuditLog(), ManualClock())
        let parts = CredentialSources.Parts(
            key: try InstallationKey(bytes: Array(0..<32)),
            store: RecordingTokenStore(),
            endpoint: ScriptedTokenEndpoint { _, _ in .token("one", expiresIn: 3600) },
            programs: NoPrograms(),
            audit: audit,
            onAuditFailure: .degrade,
            feed: AuditEventQueue(audit: audit, metrics: MetricRegistry(), logger: quiet),
            locks: locks,
            start: { _ in },
            clock: clock,
            logger: quiet
        )
        let sources = CredentialSources(credentials: credentials, parts: parts)
        return LivePlan(plan: plan, sources: sources, at: clock.now().wall)
    }

    /// - Returns: What has happened since the last call.
    private func follow() async -> [Event] {
        events.update { $0 = [] }
        let mark = await follower.follow()
        return events.update { events in
            events.append(.answered(mark))
            return events
        }
    }

    @Test func aLockIsAcknowledgedAfterTheUseOfTheTokenHasEnded() async throws {
        try await other.lock("box")
        let happened = await follow()
        #expect(happened == [.asked(["box"], areAllLocked: true), .ended, .answered(mark)])
    }

    @Test func whatWasFollowedIsNotEndedAgain() async throws {
        try await other.lock("box")
        _ = await follow()
        #expect(await follow() == [.answered(mark)])
        try await other.unlock(["box"])
        #expect(await follow() == [.answered(mark)])
    }

    @Test func aWorkerThatDoesNotAnswerDelaysTheAcknowledgement() async throws {
        silent.update { $0 = [0] }
        try await other.lock("box")
        #expect(await follow() == [.asked(["box"], areAllLocked: true), .ended, .answered(nil)])
        try await other.lock("mail")
        #expect(await follow() == [.asked(["box", "mail"], areAllLocked: true), .ended, .answered(nil)])
        silent.update { $0 = [] }
        #expect(await follow() == [.asked(["box", "mail"], areAllLocked: true), .ended, .answered(mark)])
        #expect(await follow() == [.answered(mark)])
    }

    @Test func withoutTheStoreNothingIsAcknowledgedAndNothingIsForgotten() async throws {
        silent.update { $0 = [0] }
        try await other.lock("box")
        _ = await follow()
        silent.update { $0 = [] }
        store.fails(true)
        #expect(await follow() == [.answered(nil)])
        store.fails(false)
        #expect(await follow() == [.asked(["box"], areAllLocked: true), .ended, .answered(mark)])
    }
}
