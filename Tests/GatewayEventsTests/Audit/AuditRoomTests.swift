import GatewayEvents
import Testing

@Suite("Room in the audit log", .timeLimit(.minutes(5)))
struct AuditRoomTests {
    private static let limit = 1000 << 20
    private static let cases: [(used: Int, stopped: [AuditPriority])] = [
        (0, []), (899 << 20, []), (900 << 20, [.traffic]), (974 << 20, [.traffic]), (975 << 20, [.traffic, .token]),
        (999 << 20, [.traffic, .token]), (1000 << 20, [.traffic, .token, .operator]), (.max, AuditPriority.allCases),
    ]

    @Test(arguments: cases)
    func requestsStopFirstAndOperatorsLast(_ used: Int, _ stopped: [AuditPriority]) {
        let room = AuditRoom(usedBytes: used, limit: Self.limit)
        #expect(AuditPriority.allCases.filter { room.shortage(for: $0) == .limit } == stopped)
    }

    @Test func onAFullDiskOnlyRowsOfRequestsAreNotTried() {
        var room = AuditRoom(usedBytes: 0, limit: Self.limit)
        #expect(room.shortage(for: .traffic) == nil)
        room.isDiskFull = true
        #expect(AuditPriority.allCases.filter { room.shortage(for: $0) != nil } == [.traffic])
        #expect(room.shortage(for: .traffic) == .disk)
    }

    @Test func requestsLeaveTheRestOfTheDiskToTokens() {
        func isStopped(free: Int, total: Int) -> Bool {
            let disk = AuditRoom.Disk(freeBytes: free, totalBytes: total)
            return AuditRoom(usedBytes: 0, limit: Self.limit, disk: disk).shortage(for: .traffic) == .disk
        }
        #expect(!isStopped(free: 32 << 20, total: 100 << 30))
        #expect(isStopped(free: 32 << 20 - 1, total: 100 << 30))
        #expect(!isStopped(free: 100 << 10, total: 1 << 20), "a small disk is not taken for a full one")
        #expect(isStopped(free: 20 << 10, total: 1 << 20))
    }

    @Test func whatStopsTokensIsNeverGivenUpForWhatStopsNothing() {
        #expect(TokenEvent.Name.clientDenied.priority == .traffic)
        #expect(TokenEvent.Name.injected.priority == .traffic)
        for name in [TokenEvent.Name.acquiring, .acquired, .renewing, .renewed, .loaded, .adopted, .vended] {
            #expect(name.priority == .token)
        }
        for name in [TokenEvent.Name.gatewayStarted, .configLoaded, .unlocked, .imported, .loginCompleted, .revealed] {
            #expect(name.priority == .operator)
        }
    }

    @Test func whatTakesARightAwayIsForOperatorsAndNothingElseIs() {
        let withdrawals = TokenEvent.Name.allCases.filter(\.isWithdrawal)
        #expect(withdrawals == [.revoked, .revocationFailed, .cleared, .phantomsRevoked, .locked])
        #expect(withdrawals.allSatisfy { $0.priority == .operator })
    }
}
