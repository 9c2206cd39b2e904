import GatewayHTTP
import Testing

@testable import GatewayTokens

@Suite("What is said of a credential whose calls fail", .timeLimit(.minutes(5)))
struct TokenLifecycleFailingTests {
    private static let commands = TokenStatus.Failing.Commands(
        login: "log in",
        refresh: "refresh",
        importing: "import"
    )

    private static func failing(_ script: borrowing LifecycleScript) -> TokenStatus.Failing? {
        let now = script.now
        return script.machine.failing(at: now.monotonic).map {
            TokenStatus.Failing($0, at: now, commands: commands, failedRequests: 3)
        }
    }

    private static func required(_ script: borrowing LifecycleScript) throws -> TokenStatus.Failing {
        let failing = failing(script)
        return try #require(failing)
    }

    private static func expectNoTry(_ script: borrowing LifecycleScript) throws {
        let failing = try required(script)
        #expect(failing.nextTryAt == nil)
    }

    /// Near its end, with the renewal under way.
    private static func renewing() -> LifecycleScript {
        var script = LifecycleScript.ready(lifetime: .seconds(36_000))
        script.pass(.seconds(32_400))
        _ = script.next()
        return script
    }

    @Test func aTokenThatIsServedDoesNotHideThatItsRenewalFails() throws {
        var script = Self.renewing()
        let since = script.now.wall
        _ = script.fail()
        script.pass(.seconds(1))
        let failing = try Self.required(script)
        let state = script.state()
        #expect(state == .valid)
        #expect(failing.since == since.rfc3339)
        #expect(failing.reason == "No.")
        #expect(failing.nextTryAt == script.now.wall.rfc3339)
        #expect(failing.remedy == "Wait; the gateway tries again by itself.")
        #expect(failing.command == "refresh")
        #expect(failing.failedRequests == 3)
    }

    @Test func itLastsFromTheFirstFailureUntilThereIsAToken() throws {
        var script = Self.renewing()
        let since = script.now.wall.rfc3339
        for _ in 0..<3 {
            _ = script.fail()
            script.pass(.seconds(1))
            _ = script.next()
            let failing = Self.failing(script)
            #expect(failing?.since == since, "also while a call is under way")
        }
        _ = script.obtain(2)
        let failing = Self.failing(script)
        #expect(failing == nil)
    }

    @Test func withoutALiveTokenTheNextRequestTries() throws {
        var script = LifecycleScript.started()
        _ = (script.need(1), script.next(), script.fail())
        let failing = try Self.required(script)
        #expect(failing.nextTryAt == nil)
        #expect(failing.remedy == "Wait; the next request tries again.")
        let pause = try #require(failing.notBefore)
        #expect(pause > failing.since)
        #expect(failing.command == "refresh")
        script.pass(.seconds(60))
        let later = try Self.required(script)
        #expect(later.notBefore == nil, "it tries at once")
    }

    @Test(
        "a page in place of a token is named",
        arguments: [(200, true), (403, true), (404, true), (302, false), (401, false), (429, false), (503, false)]
    )
    func aPageIsNamed(_ status: Int, _ isNamed: Bool) {
        let problem = GatewayProblem(.credentialMisconfigured, "No.")
        var failure = TokenFailure(.terminal, problem: problem)
        failure.authorityError = AuthorityError(status: status, description: "Sign in to Corp Proxy", format: .html)
        let unresolved = UnresolvedFailure(since: MonotonicTime(nanoseconds: 0), failure: failure)
        let commands = TokenStatus.Failing.Commands(login: nil, refresh: "refresh", importing: "import")
        let now = Moment(monotonic: MonotonicTime(nanoseconds: 0), wall: UnixTime(seconds: 0))
        let failing = TokenStatus.Failing(unresolved, at: now, commands: commands)
        let text =
            "token_url returned an HTML page (\"Sign in to Corp Proxy\") instead of JSON: check token_url, or the proxy in between."
        #expect((failing.remedy == text) == isNamed, "\(failing.remedy)")
    }

    @Test func aTimeThatTheAuthorityNamesIsSaidAndNoCommandContradictsIt() throws {
        func failing(_ wait: Duration, status: Int?) throws -> TokenStatus.Failing {
            var script = LifecycleScript.started()
            _ = (script.need(1), script.next(), script.fail(.transient(retryAfter: wait), status: status))
            return try Self.required(script)
        }
        let limited = try failing(.seconds(120), status: 429)
        #expect(
            limited.remedy == "Wait: the authorization server asks for 2m (Retry-After); the next request tries again."
        )
        #expect(limited.command == nil && limited.nextTryAt == nil)
        let patient = try failing(.seconds(7200), status: 429)
        #expect(
            patient.remedy == "Wait: the authorization server asks for 2h (Retry-After); the gateway waits 1h;"
                + " the next request tries again."
        )
        // The gateway's own limit on calls is no word of the authority.
        let own = try failing(.seconds(60), status: nil)
        #expect(own.remedy == "Wait; the next request tries again." && own.command == "refresh")
    }

    @Test(arguments: [3600, 7200])
    func aPauseThatEndsAfterTheTokenIsOverWithIt(_ pause: Int) throws {
        var script = Self.renewing()
        script.pass(.seconds(600))
        _ = script.fail(.transient(retryAfter: .seconds(pause)))
        let failing = try Self.required(script)
        #expect(failing.nextTryAt == (script.now.wall + .seconds(3000)).rfc3339)
    }

    @Test func aSuspectAnswerIsTriedAtItsTimeAlthoughNobodyAsks() throws {
        var script = LifecycleScript.started()
        _ = (script.need(1), script.next(), script.fail(.suspect))
        let failing = try Self.required(script)
        #expect(failing.nextTryAt == (script.now.wall + .seconds(120)).rfc3339)
        #expect(failing.remedy.hasPrefix("Check whether a firewall"))
    }

    @Test(arguments: [true, false])
    func aConfigurationIsToBeCorrected(isRetried: Bool) throws {
        var script = Self.renewing()
        _ = script.fail(.terminal, isRetried: isRetried)
        let failing = try Self.required(script)
        #expect(failing.nextTryAt == (isRetried ? (script.now.wall + .seconds(300)).rfc3339 : nil))
        let more = isRetried ? "." : "; the gateway does not try again by itself."
        #expect(
            failing.remedy == "Correct the configuration or the secret, run `authgateway reload`, then try again\(more)"
        )
        #expect(failing.command == "refresh")
    }

    @Test func aLoginIsAPersonsAffair() throws {
        var script = Self.renewing()
        _ = script.fail(.loginRequired)
        let failing = try Self.required(script)
        #expect(failing.nextTryAt == nil)
        #expect(failing.remedy == "Log in.")
        #expect(failing.command == "log in")
    }

    @Test func withoutALoginATokenIsToBeBrought() throws {
        var script = Self.renewing()
        _ = script.fail(.loginRequired)
        let found = script.machine.failing(at: script.now.monotonic)
        let unresolved = try #require(found)
        let commands = TokenStatus.Failing.Commands(login: nil, refresh: "refresh", importing: "import")
        let failing = TokenStatus.Failing(unresolved, at: script.now, commands: commands)
        #expect(failing.remedy == "Give the credential a new token.")
        #expect(failing.command == "import")
    }

    @Test func theTryAfterSuspectAnswersIsSaidToNeedALogin() throws {
        var script = Self.renewing()
        for pause in [120, 360, 3600] {
            _ = script.fail(.suspect)
            script.pass(.seconds(pause))
            _ = script.next()
        }
        let failing = try Self.required(script)
        #expect(failing.reason == "No. A login is needed, unless the next hourly try succeeds.")
        #expect(failing.remedy == "Log in again.")
        #expect(failing.nextTryAt != nil)
    }

    @Test func whileLockedOrStoppedNothingIsTried() throws {
        var script = Self.renewing()
        _ = script.fail()
        _ = script.lock()
        try Self.expectNoTry(script)
        script.machine.unlock()
        let unlocked = try Self.required(script)
        #expect(unlocked.nextTryAt != nil)
        _ = script.machine.stop()
        let failing = try Self.required(script)
        #expect(failing.nextTryAt == nil)
        #expect(failing.remedy == "Wait; the gateway does not try again by itself.")
    }

    @Test func aStormIsAFailure() throws {
        var script = LifecycleScript.ready(callsPerHour: 1)
        for generation in 1...3 {
            _ = script.reject(generation)
            if script.next().hasPrefix("storm") { break }
            _ = script.obtain(generation + 1)
        }
        let failing = try Self.required(script)
        #expect(failing.reason.contains("token requests within an hour"))
    }

    @Test func whatIsClearedHasNotFailed() {
        var script = Self.renewing()
        _ = script.fail()
        script.machine.clear()
        let failing = Self.failing(script)
        #expect(failing == nil)
    }

    @Test func theReasonLeavesOutTheWaysToMendIt() {
        let problem = GatewayProblem(.credentialMisconfigured, "The secret is wrong.")
        let advised = TokenFailure(.terminal, problem: problem).advised(
            login: nil,
            refresh: "refresh me",
            importing: "import me"
        )
        #expect(advised.reason == "The secret is wrong.")
        #expect(advised.problem.detail.hasPrefix("The secret is wrong. A changed configuration file"))
    }
}
