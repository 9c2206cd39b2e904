import GatewayCore
import Testing

@Suite("What doctor says of a token database", .timeLimit(.minutes(1)))
struct DatabaseRuleTests {
    private func levels(_ change: (inout DatabaseRule.Observation) -> Void) -> [DoctorFinding.Level] {
        var database = DatabaseRule.Observation(serverVersion: "15.3")
        change(&database)
        return DatabaseRule.findings(of: database, "db").map(\.level)
    }

    @Test func aSoundDatabaseHasOneFinding() {
        #expect(levels { _ in } == [.ok])
        #expect(levels { ($0.standbys, $0.synchronousStandbys) = (2, 1) } == [.ok])
    }

    @Test func whatAFailoverLosesIsAWarning() {
        #expect(levels { $0.standbys = 1 } == [.ok, .warning])
        #expect(levels { $0.synchronousCommit = "off" } == [.ok, .warning])
        #expect(
            levels { ($0.synchronousCommit, $0.standbys, $0.synchronousStandbys) = ("local", 1, 1) } == [.ok, .warning]
        )
    }

    @Test func clocksPoolersAndStandbysAreNamed() {
        #expect(levels { $0.clockOffset = .seconds(60) } == [.ok, .warning])
        #expect(levels { $0.clockOffset = .seconds(-60) } == [.ok, .warning])
        #expect(levels { $0.listens = false } == [.ok, .warning])
        #expect(levels { $0.isReadOnly = true } == [.ok, .error])
    }
}
