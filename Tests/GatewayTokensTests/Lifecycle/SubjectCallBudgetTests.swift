import Testing

@testable import GatewayEvents
@testable import GatewayHTTP
@testable import GatewayTokens

@Suite("Calls that subjects may cause together", .timeLimit(.minutes(5)))
struct SubjectCallBudgetTests {
    private static let start = MonotonicTime(nanoseconds: 1_000_000_000)

    private static func spent(members: Int, _ trigger: TokenEvent.Trigger = .demand) -> SubjectCallBudget {
        var budget = SubjectCallBudget(members: members)
        for _ in 0..<members * 60 {
            let result = budget.spend(for: trigger, at: start)
            #expect(result == .granted)
        }
        return budget
    }

    @Test(arguments: [1, 100]) func thereAreSixtyForEachPlace(_ members: Int) {
        var budget = Self.spent(members: members)
        let result = budget.spend(for: .rejected, at: Self.start)
        #expect(result == .spent(isUnreported: true))
        let pause = Duration.seconds(60) / members
        let (early, late) = (Self.start + pause - .milliseconds(1), Self.start + pause + .milliseconds(1))
        var results: [SubjectCallBudget.SpendResult] = []
        for time in [early, late, late] { results.append(budget.spend(for: .demand, at: time)) }
        #expect(results == [.spent(isUnreported: false), .granted, .spent(isUnreported: false)])
    }

    @Test func whoInventsSubjectsStopsNoRenewal() {
        var budget = Self.spent(members: 2)
        for _ in 0..<120 {
            let result = budget.spend(for: .aheadOfExpiry, at: Self.start)
            #expect(result == .granted)
        }
        let result = budget.spend(for: .aheadOfExpiry, at: Self.start)
        #expect(result == .spent(isUnreported: true))
    }

    @Test func oneClientLeavesAQuarterToTheOthers() {
        var budget = SubjectCallBudget(members: 4)
        func granted(_ client: String, isLook: Bool = false, of count: Int = 300) -> Int {
            (0..<count).count { _ in
                budget.spend(for: .demand, isLook: isLook, by: client, at: Self.start) == .granted
            }
        }
        #expect(granted("hostile") == 180)
        #expect(granted("portal", of: 40) == 40)
        #expect(granted("hostile") == 0)
        #expect(granted("ci") == 20)
        #expect(granted("portal") == 0)
        // They have budgets of their own.
        #expect(granted("hostile", isLook: true) == 180 && granted("portal", isLook: true) == 60)
    }

    @Test func whoIsAloneAndHasANameGoesOn() {
        var budget = SubjectCallBudget(members: 1)
        var granted = 0
        for minute in 0..<600 {
            let now = Self.start + .seconds(60) * minute
            if budget.spend(for: .demand, by: "portal", at: now) == .granted { granted += 1 }
        }
        #expect(granted == 600)
    }

    @Test func aFloodWithinEachMillisecondDoesNotStopTheHour() {
        var budget = Self.spent(members: 60)
        var granted = 0
        for turn in 1...4002 {
            let result = budget.spend(for: .demand, at: Self.start + .microseconds(500) * turn)
            if result == .granted { granted += 1 }
        }
        #expect(granted == 2)
    }

    @Test func itIsSaidAgainWhenHalfOfItWasFreeInBetween() {
        var budget = Self.spent(members: 1)
        let first = budget.spend(for: .demand, at: Self.start)
        #expect(first == .spent(isUnreported: true))
        let later = Self.start + .seconds(1860)
        for _ in 0..<31 { _ = budget.spend(for: .demand, at: later) }
        let second = budget.spend(for: .demand, at: later)
        #expect(second == .spent(isUnreported: true))
    }

    @Test func shortLivedTokensAreRenewedOnSchedule() {
        var budget = SubjectCallBudget(members: 3)
        let obtained = UnixTime(seconds: 1_772_357_400)
        let token = TokenSet(access: Secret("t"), obtainedAt: obtained, expiresAt: obtained + .seconds(10))
        budget.expect(token, renewedBy: RenewalPolicy())
        for turn in 0..<2000 {
            let now = Self.start + .seconds(5) * turn
            for _ in 0..<3 {
                let result = budget.spend(for: .aheadOfExpiry, at: now)
                #expect(result == .granted)
            }
        }
    }

    @Test func theNumberOfClientSharesIsLimited() {
        var budget = SubjectCallBudget(members: 100)
        func isGranted(_ client: String) -> Bool { budget.spend(for: .demand, by: client, at: Self.start) == .granted }
        while isGranted("hostile") {}
        for number in 2...SubjectCallBudget.maximumClients { #expect(isGranted("c\(number)")) }
        #expect(!isGranted("hostile"))
        // With one more client than there is room for, all shares start over.
        #expect(isGranted("another"))
        #expect(isGranted("hostile"))
    }
}

@Suite("Password of all subjects", .timeLimit(.minutes(5)))
struct SharedPasswordTests {
    private static func failure(status: Int) -> TokenFailure {
        TokenFailure(
            .terminal,
            problem: GatewayProblem(.credentialMisconfigured, "Refused.", cause: .init(httpStatus: status)),
            isRetried: false
        )
    }

    private let refused = Self.failure(status: 401)

    @Test func beforeItHasWorkedItIsSentOnce() {
        var password = SharedPassword()
        #expect(password.refusal == nil)
        password.failed(refused, hadToken: false)
        #expect(password.refusal == refused)
    }

    @Test func anInventedSubjectStopsNobodyOnceItHasWorked() {
        var password = SharedPassword()
        password.worked()
        for _ in 0..<100 { password.failed(refused, hadToken: false) }
        #expect(password.refusal == nil)
    }

    @Test func threeSubjectsInTurnThatHadATokenStopIt() {
        var password = SharedPassword()
        password.worked()
        for _ in 1..<SharedPassword.tolerated { password.failed(refused, hadToken: true) }
        password.worked()
        for _ in 1..<SharedPassword.tolerated { password.failed(refused, hadToken: true) }
        #expect(password.refusal == nil)
        password.failed(refused, hadToken: true)
        #expect(password.refusal == refused)
        password.worked()
        #expect(password.refusal == nil)
    }

    @Test func whatIsNoRefusedPasswordSaysNothing() {
        var password = SharedPassword()
        password.failed(Self.failure(status: 403), hadToken: true)
        let busy = GatewayProblem(.tokenTemporarilyUnavailable, "Busy.", cause: .init(httpStatus: 401))
        password.failed(TokenFailure(.transient(retryAfter: nil), problem: busy), hadToken: true)
        #expect(password.refusal == nil)
    }
}
