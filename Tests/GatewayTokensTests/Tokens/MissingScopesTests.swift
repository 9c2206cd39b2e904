import GatewayHTTP
import GatewayTokens
import Testing

@Suite("Scopes that a token lacks", .timeLimit(.minutes(1)))
struct MissingScopesTests {
    private func second(_ number: Int64) -> MonotonicTime { MonotonicTime(nanoseconds: 0) + .seconds(number) }

    @Test func onlyWhatIsNewIsTold() {
        var scopes = MissingScopes()
        #expect(scopes.names(at: second(0)).isEmpty)
        #expect(scopes.note(["write", "read"], known: ["read"], at: second(0)) == ["write"])
        #expect(scopes.note(["write"], known: ["read"], at: second(1)) == [])
        #expect(scopes.note(["admin", "write"], known: ["read"], at: second(2)) == ["admin"])
        #expect(scopes.names(at: second(2)) == ["write", "admin"])
    }

    /// Somebody may have unchecked it, or the authorization server did not grant it.
    @Test func aScopeThatWasAskedForIsNamedIfItIsTheOnlyOne() {
        var scopes = MissingScopes()
        #expect(scopes.note(["read"], known: ["read"], at: second(0)) == ["read"])
    }

    @Test func theyAreForgottenAfterADay() {
        var scopes = MissingScopes()
        _ = scopes.note(["write"], known: [], at: second(0))
        _ = scopes.note(["write"], known: [], at: second(3600))
        #expect(scopes.names(at: second(86_400 + 3599)) == ["write"])
        #expect(scopes.names(at: second(86_400 + 3600)).isEmpty)
        #expect(scopes.note(["write"], known: [], at: second(90_001)) == ["write"])
    }

    @Test func theirNumberIsLimited() {
        var scopes = MissingScopes()
        var told = 0
        for number in 0..<1000 { told += scopes.note(["s\(number)"], known: [], at: second(1)).count }
        #expect(told == MissingScopes.limit && scopes.names(at: second(1)).count == MissingScopes.limit)
        #expect(scopes.names(at: second(1)).first == "s0")
    }
}
