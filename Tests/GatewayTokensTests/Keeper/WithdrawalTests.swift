import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

/// What takes a right away takes effect whatever the audit log does; what gives one back does not.
@Suite("Withdrawals without an audit log", .timeLimit(.minutes(5)))
struct WithdrawalTests {
    private let two = ScriptedTokenEndpoint([.token("one", expiresIn: 3600), .token("two", expiresIn: 3600)])

    private func expectLate(_ report: OperationReport) {
        #expect(report.message.contains("not recorded yet: no space left on device"), "\(report.message)")
    }

    @Test func aLockCountsAndIsRecordedLater() async throws {
        try await KeeperBench(two).running { bench in
            _ = await bench.credential()
            bench.audit.fail { _ in true }
            let late = await bench.keeper.lockForOperator()
            #expect(late?.lateRecord.contains("not recorded yet: no space left on device") == true)
            #expect(bench.status.state == .locked)
            #expect(await bench.credential().problem?.kind == .locked)
            #expect(bench.audit.withdrawals.map(\.name) == [.locked])
            bench.audit.fail(nil)
            #expect(bench.audit.count(of: .locked) == 1)
        }
    }

    @Test func aClearedTokenIsForgottenAndThatIsRecordedLater() async throws {
        try await KeeperBench(two).running { bench in
            _ = await bench.credential()
            bench.audit.fail { _ in true }
            expectLate(try await bench.perform(.clear))
            #expect(bench.generation == nil)
            #expect(bench.store[KeeperBench.key] == nil)
            #expect(bench.audit.withdrawals.map(\.name) == [.cleared])
        }
    }

    @Test(arguments: [true, false])
    func whatCameOfARevocationIsRecordedLater(_ isAccepted: Bool) async throws {
        let refused = ScriptedTokenEndpoint.Answer.failure(.init(.connectionRefused, mayHaveBeenProcessed: false))
        let answer = isAccepted ? ScriptedTokenEndpoint.Answer.json("") : refused
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600), answer])
        try await KeeperBench(endpoint, grant: SampleGrant(revokes: true)).running { bench in
            _ = await bench.credential()
            bench.audit.fail { _ in true }
            switch await bench.keeper.perform(.revoke) {
            case .success(let report): expectLate(report)
            case .failure(let problem): #expect(problem.detail.contains("not recorded yet"))
            }
            // A token that the authority has not forgotten stays in use, so that nobody takes it for dead.
            #expect(bench.generation == (isAccepted ? nil : 1))
            #expect(bench.audit.withdrawals.map(\.name) == [isAccepted ? .revoked : .revocationFailed])
        }
    }

    @Test func anUnlockIsRefusedAndTheLockStays() async throws {
        try await KeeperBench(two).running { bench in
            _ = await bench.credential()
            #expect(await bench.keeper.lockForOperator() == nil)
            bench.audit.fail { _ in true }
            let problem = await bench.keeper.unlockForOperator()
            #expect(problem?.kind == .auditUnavailable)
            #expect(problem?.detail.contains("no space left on device") == true)
            #expect(bench.status.state == .locked)
            bench.audit.fail(nil)
            #expect(await bench.keeper.unlockForOperator() == nil)
            #expect(bench.status.state == .valid)
            #expect(bench.audit.names.suffix(2) == [.locked, .unlocked])
        }
    }

    @Test func withDegradeAnUnlockCounts() async throws {
        try await KeeperBench(two, onAuditFailure: .degrade).running { bench in
            #expect(await bench.keeper.lockForOperator() == nil)
            bench.audit.fail { _ in true }
            #expect(await bench.keeper.unlockForOperator() == nil)
            #expect(bench.status.state != .locked)
        }
    }

    @Test func nothingIsImportedOrShownThatCannotBeRecorded() async throws {
        try await KeeperBench(two).running { bench in
            _ = await bench.credential()
            bench.audit.fail { _ in true }
            let imported = await bench.keeper.perform(.import(ImportedToken(access: Secret("new"))))
            #expect(imported.problem?.kind == .auditUnavailable)
            #expect(await bench.keeper.reveal().problem?.kind == .auditUnavailable)
            #expect(bench.generation == 1)
        }
    }

    @Test func aLockAndAClearCountWhileTheAuthorityIsAwaited() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600), .held])
        try await KeeperBench(endpoint).running { bench in
            _ = await bench.credential()
            async let refreshed = bench.keeper.perform(.refresh)
            try await endpoint.untilHeld()
            #expect(await bench.keeper.lockForOperator() == nil)
            #expect(bench.status.state == .locked, "the answer to a lock waits for nothing")
            #expect(await bench.keeper.unlockForOperator() == nil)
            async let cleared = bench.keeper.perform(.clear)
            while bench.generation != nil { await Task.yield() }
            endpoint.release(.token("two", expiresIn: 3600))
            _ = await (refreshed, cleared)
            #expect(bench.generation == nil)
            #expect(bench.store[KeeperBench.key] == nil)
        }
    }

    @Test func aRequestBeforeTheTurnOfAClearCallsNobodyUntilThen() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600), .token("two", expiresIn: 3600)])
        try await KeeperBench(endpoint).running { bench in
            _ = await bench.credential()
            bench.keeper.withdrawNow(.clear)
            let (answers, answered) = AsyncStream.makeStream(of: Result<Credential, GatewayProblem>.self)
            _ = bench.keeper.wait(for: .sample) { answered.yield($0) }
            // As long as a call needs to begin.
            for _ in 0..<1000 { await Task.yield() }
            #expect(endpoint.requests.count == 1)
            _ = try await bench.perform(.clear)
            #expect(await answers.first { _ in true }?.generation == 2)
            #expect(endpoint.requests.count == 2)
        }
    }

    @Test func aClearWhoseOperatorHasGivenUpIsCarriedOutAllTheSame() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600), .held])
        try await KeeperBench(endpoint).running { bench in
            _ = await bench.credential()
            async let refreshed = bench.keeper.perform(.refresh)
            try await endpoint.untilHeld()
            // The limit of the clear ends after that of the refresh.
            try await bench.clock.untilAsleep(moreThan: .seconds(49), atMost: .seconds(50))
            bench.clock.advance(by: .seconds(1))
            async let outcome = bench.keeper.perform(.clear)
            try await bench.clock.untilAsleep(moreThan: .seconds(49), atMost: .seconds(50))
            while bench.generation != nil { await Task.yield() }
            bench.clock.advance(by: .seconds(50))
            #expect(await outcome.problem?.detail.contains("runs as soon as it can") == true)
            endpoint.release(.token("two", expiresIn: 3600))
            _ = await refreshed
            try await bench.audit.untilRecorded(.cleared)
            #expect(bench.generation == nil)
            #expect(bench.store[KeeperBench.key] == nil)
        }
    }
}
