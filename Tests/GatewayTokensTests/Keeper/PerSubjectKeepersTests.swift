import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Logging
import Synchronization
import Testing

@testable import GatewayTokens

private struct SampleSubjects: SubjectGrants {
    let field = "X-Box-User"
    let limit: Int
    let identity = GrantIdentity.sample()
    let isRenewable = true

    func allows(_ subject: String) -> Bool { subject != "foreign" }
    func grant(for subject: String) -> any TokenGrant { SampleGrant(identity: .sample(subject: subject)) }
}

/// Grants whose token server takes a password, and refuses it with 401.
private struct PasswordSubjects: SubjectGrants {
    private struct Grant: TokenGrant {
        let base: SampleGrant
        var identity: GrantIdentity { base.identity }
        var isRenewable: Bool { base.isRenewable }
        var rotatesRefreshToken: Bool { base.rotatesRefreshToken }
        func seed(at now: Moment) -> TokenSet? { nil }
        func firstStep(of attempt: GrantAttempt) -> GrantStep { base.firstStep(of: attempt) }
        func injection(of token: TokenSet) -> Injection { base.injection(of: token) }

        func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
            guard case .failure(var failure) = base.interpret(reply, in: &attempt) else {
                return base.interpret(reply, in: &attempt)
            }
            failure.isRetried = false
            return .failure(failure)
        }
    }

    let base: SampleSubjects

    var field: String { base.field }
    var limit: Int { base.limit }
    var identity: GrantIdentity { base.identity }
    var isRenewable: Bool { base.isRenewable }
    func allows(_ subject: String) -> Bool { base.allows(subject) }
    func grant(for subject: String) -> any TokenGrant { Grant(base: SampleGrant(identity: .sample(subject: subject))) }
}

/// Keepers of one credential between doubles; they run as long as the test does.
private final class PerSubjectBench: Sendable {
    let clock = ManualClock()
    let audit = RecordingAuditLog()
    let store = RecordingTokenStore()
    let endpoint: ScriptedTokenEndpoint
    let perSubject: PerSubjectKeepers
    private let started = AsyncStream.makeStream(of: TokenKeeper.self)
    private let ended = Watched<[String]>([])

    init(_ endpoint: ScriptedTokenEndpoint, limit: Int, sendsPassword: Bool = false) {
        self.endpoint = endpoint
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        perSubject = PerSubjectKeepers(
            name: "app-user",
            strategy: "sample",
            grants: sendsPassword
                ? PasswordSubjects(base: SampleSubjects(limit: limit)) : SampleSubjects(limit: limit),
            key: CredentialKey(digest: "app-user"),
            make: { [clock, audit, store, logger] name, grant, budget in
                TokenKeeper(
                    KeeperContext(
                        name: name,
                        strategyKind: "sample",
                        grant: grant,
                        policy: RenewalPolicy(),
                        key: CredentialKey(digest: name),
                        store: store,
                        endpoint: endpoint,
                        audit: audit,
                        onAuditFailure: .block,
                        clock: clock,
                        logger: logger,
                        callLimit: budget
                    ),
                    begunBy: .demand,
                    jitter: { 0 }
                )
            },
            start: { [started] in started.continuation.yield($0) }
        )
    }

    func running(_ body: @escaping @Sendable (PerSubjectBench) async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                await withDiscardingTaskGroup { tasks in
                    for await keeper in self.started.stream {
                        tasks.addTask {
                            try? await keeper.run()
                            self.ended.update { $0.append(keeper.name) }
                        }
                    }
                }
            }
            defer { group.cancelAll() }
            try await body(self)
            group.cancelAll()
            try await group.waitForAll()
        }
    }

    /// As the data plane does it.
    func credential(_ subject: String, by client: String? = nil) async -> Result<Credential, GatewayProblem> {
        switch perSubject.source(for: subject, client: client) {
        case .failure(let problem): return .failure(problem)
        case .success(let source):
            switch source.current(at: clock.now().monotonic) {
            case .ready(let credential): return .success(credential)
            case .unavailable(let problem): return .failure(problem)
            case .wait: break
            }
            return await withCheckedContinuation { continuation in
                _ = source.wait(for: .sample) { continuation.resume(returning: $0) }
            }
        }
    }

    var names: [String] { perSubject.keepers.map(\.name) }

    func untilEnded(_ name: String) async throws { try await ended.until { $0.contains(name) } }
}

@Suite("Keepers of subjects that requests name", .timeLimit(.minutes(5)))
struct PerSubjectKeepersTests {
    private static func endpoint() -> ScriptedTokenEndpoint {
        ScriptedTokenEndpoint { _, count in .token("token-\(count)", expiresIn: 3600) }
    }

    @Test func everySubjectHasATokenOfItsOwn() async throws {
        try await PerSubjectBench(Self.endpoint(), limit: 10).running { bench in
            let first = try await bench.credential("1").get()
            let second = try await bench.credential("a.b@c").get()
            #expect((first.name, second.name) == ("app-user[1]", "app-user[a.b@c]"))
            #expect(first.injection != second.injection)
            #expect(try await bench.credential("1").get() === first)
            #expect(bench.endpoint.requests.count == 2)
            let events = bench.audit.events.filter { $0.name == .acquired }
            #expect(events.map(\.subject) == ["1", "a.b@c"])
            #expect(events.map(\.credential) == ["app-user[1]", "app-user[a.b@c]"])
            let statuses = bench.perSubject.keepers.map { $0.status(at: bench.clock.now()) }
            #expect(statuses.map(\.subject) == ["1", "a.b@c"])
            #expect(statuses.map(\.perSubjectCredential) == ["app-user", "app-user"])
        }
    }

    @Test func aLockHoldsForSubjectsThatNobodyHasNamedYet() async throws {
        try await PerSubjectBench(Self.endpoint(), limit: 10).running { bench in
            _ = try await bench.credential("1").get()
            bench.perSubject.lock()
            for subject in ["1", "2"] {
                let problem = await bench.credential(subject).problem
                #expect(problem?.kind == .locked)
                #expect(problem?.command == "authgateway token unlock app-user")
            }
            #expect(bench.names == ["app-user[1]"], "a request makes no keeper")
            let known = try #require(try bench.perSubject.look(for: "1", client: nil).get())
            guard case .unavailable = known.current(at: bench.clock.now().monotonic) else {
                Issue.record("the token is still given")
                return
            }
            guard case .failure(let problem) = bench.perSubject.look(for: "2", client: nil) else {
                Issue.record("there is no such subject")
                return
            }
            #expect(problem.kind == .locked)
            #expect(try bench.perSubject.keeper(for: "1", by: .operator).get().name == "app-user[1]")
            #expect(bench.endpoint.requests.count == 1)
            _ = bench.perSubject.change(isLocked: false)
            #expect(try await bench.credential("2").get().name == "app-user[2]")
            #expect(await bench.credential("1").problem?.kind == .locked, "each token is unlocked on its own")
        }
    }

    @Test func aSubjectCannotPutAnythingIntoACommand() async throws {
        let endpoint = ScriptedTokenEndpoint { _, count in .token("token-\(count)", expiresIn: 3600) }
        try await PerSubjectBench(endpoint, limit: 2).running { bench in
            _ = try await bench.credential("a~=+b").get()
            let keeper = try #require(bench.perSubject.keepers.first)
            let command = await keeper.perform(.revoke).problem?.command
            #expect(command == "authgateway token clear 'app-user[a~=+b]'")
            keeper.lock()
            #expect(keeper.status(at: bench.clock.now()).action == "authgateway token unlock 'app-user[a~=+b]'")
            let problem = await bench.credential("a~=+b").problem
            #expect(problem?.command == "authgateway token unlock 'app-user[a~=+b]'")
        }
    }

    @Test func aRefusedPasswordIsNotSentAgainForOtherSubjects() async throws {
        let endpoint = ScriptedTokenEndpoint { _, count in
            count == 1 ? .error("access_denied", status: 401) : .token("token-\(count)", expiresIn: 3600)
        }
        try await PerSubjectBench(endpoint, limit: 2, sendsPassword: true).running { bench in
            for subject in ["1", "2", "3", "1"] {
                let problem = await bench.credential(subject).problem
                #expect(problem?.kind == .credentialMisconfigured)
            }
            bench.clock.advance(by: .seconds(4000))
            #expect(await bench.credential("4").problem?.kind == .credentialMisconfigured)
            #expect(endpoint.requests.count == 1)
            let keeper = try bench.perSubject.keeper(for: "4", by: .operator).get()
            _ = try await keeper.perform(.refresh).get()
            #expect(try await bench.credential("5").get().name == "app-user[5]")
            #expect(endpoint.requests.count == 3)
        }
    }

    @Test func aThousandRequestsOfOneSubjectCauseOneCall() async throws {
        let endpoint = ScriptedTokenEndpoint([.held])
        try await PerSubjectBench(endpoint, limit: 1).running { bench in
            let generations = try await withThrowingTaskGroup(of: Int?.self) { group in
                for _ in 0..<1000 { group.addTask { await bench.credential("1").generation } }
                try await endpoint.untilHeld()
                endpoint.release(.token("one", expiresIn: 3600))
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(generations == Array(repeating: 1, count: 1000))
            #expect(endpoint.requests.count == 1)
        }
    }

    @Test(arguments: [
        "", ".", "..", "-a", "a b", "a/b", "a\"b", "a{b", "a\\b", "a\r\nb", "é", "a,b", "a%2e", "[a]",
        String(repeating: "x", count: 129),
    ])
    func whatCannotNameASubjectIsRefused(_ subject: String) async throws {
        let bench = PerSubjectBench(ScriptedTokenEndpoint(), limit: 10)
        let problem = bench.perSubject.keeper(for: subject, by: .client(nil)).problem
        #expect(problem?.kind == .subjectRequired)
        #expect(subject.count < 3 || problem?.detail.contains(subject) == false)
        #expect(bench.names == [])
    }

    @Test(
        arguments: [
            ([], .subjectRequired), ([""], .subjectRequired), (["a", "a"], .subjectRequired),
            (["a b"], .subjectRequired), (["foreign"], .routeForbidden), (["a"], nil),
        ] as [([String], ProblemKind?)]
    )
    func aFieldNamesOneSubject(_ values: [String], _ problem: ProblemKind?) {
        let bench = PerSubjectBench(ScriptedTokenEndpoint(), limit: 10)
        #expect(bench.perSubject.subject(named: values).problem?.kind == problem)
        #expect(bench.names == [])
    }

    @Test func aSubjectThatIsNotAllowedIsRefused() async throws {
        let bench = PerSubjectBench(ScriptedTokenEndpoint(), limit: 10)
        #expect(bench.perSubject.keeper(for: "foreign", by: .client(nil)).problem?.kind == .routeForbidden)
        #expect(bench.names == [])
    }

    /// An explanation must not push anybody out.
    @Test func aLookMakesNoKeeperAndIsNoUseOfOne() async throws {
        try await PerSubjectBench(Self.endpoint(), limit: 2).running { bench in
            #expect(try bench.perSubject.look(for: "1", client: nil).get() == nil && bench.names == [])
            #expect(bench.perSubject.look(for: "foreign", client: nil).problem?.kind == .routeForbidden)
            for subject in ["1", "2"] { _ = try await bench.credential(subject).get() }
            #expect(try bench.perSubject.look(for: "1", client: nil).get()?.name == "app-user[1]")
            _ = try await bench.credential("3").get()
            #expect(try bench.perSubject.look(for: "1", client: nil).get() == nil, "the look was no use of it")
        }
    }

    @Test func theOneThatWasNotAskedForLongestMakesRoomAndKeepsItsToken() async throws {
        try await PerSubjectBench(Self.endpoint(), limit: 2).running { bench in
            for subject in ["a", "b", "a", "c"] { _ = try await bench.credential(subject).get() }
            #expect(bench.names == ["app-user[a]", "app-user[c]"])
            try await bench.untilEnded("app-user[b]")
            #expect(bench.endpoint.requests.count == 3)
            // From the store.
            #expect(try await bench.credential("b").get().generation == 1)
            #expect(bench.endpoint.requests.count == 3)
            #expect(bench.names == ["app-user[b]", "app-user[c]"])
        }
    }

    @Test func inventedSubjectsDoNotPushOutTheLiveTokenOfAnotherClient() async throws {
        try await PerSubjectBench(Self.endpoint(), limit: 3).running { bench in
            let victim = try await bench.credential("victim", by: "portal").get()
            for number in 0..<20 { _ = try await bench.credential("invented-\(number)", by: "hostile").get() }
            #expect(try await bench.credential("victim", by: "portal").get() === victim)
        }
    }

    @Test func whoNeverHadATokenMakesRoomFirst() async throws {
        let answers: [ScriptedTokenEndpoint.Answer] = [.token("one", expiresIn: 3600), .error("invalid_request")]
        let endpoint = ScriptedTokenEndpoint(answers + [.token("three", expiresIn: 3600)])
        try await PerSubjectBench(endpoint, limit: 2).running { bench in
            _ = try await bench.credential("live").get()
            #expect(await bench.credential("refused").problem != nil)
            try await Self.until { bench.perSubject.keepers.allSatisfy(\.isIdle) }
            _ = try await bench.credential("next").get()
            #expect(bench.names == ["app-user[live]", "app-user[next]"])
        }
    }

    @Test func nobodyWhoIsWaitedForMakesRoom() async throws {
        let endpoint = ScriptedTokenEndpoint([.held])
        try await PerSubjectBench(endpoint, limit: 1).running { bench in
            async let waiting = bench.credential("a")
            try await endpoint.untilHeld()
            let problem = bench.perSubject.keeper(for: "b", by: .client(nil)).problem
            #expect(problem?.kind == .overloaded)
            #expect(problem?.retryAfter == .seconds(1))
            #expect(bench.names == ["app-user[a]"])
            endpoint.release(.token("one", expiresIn: 3600))
            #expect(await waiting.generation == 1)
            endpoint.append(.token("two", expiresIn: 3600))
            #expect(await bench.credential("b").generation == 1)
            #expect(bench.names == ["app-user[b]"])
        }
    }

    @Test func aRenewalUnderWayIsNotDroppedAlthoughNobodyWaits() async throws {
        let endpoint = ScriptedTokenEndpoint([.token("one", expiresIn: 3600), .held])
        try await PerSubjectBench(endpoint, limit: 1).running { bench in
            _ = try await bench.credential("a").get()
            try await bench.clock.untilAsleep()
            bench.clock.advance(by: .seconds(3500))
            try await endpoint.untilHeld()
            #expect(bench.perSubject.keeper(for: "b", by: .client(nil)).problem?.kind == .overloaded)
            endpoint.release(.token("two", expiresIn: 3600))
            try await bench.audit.untilRecorded(.renewed)
            try await Self.until { bench.perSubject.keepers.first?.isIdle == true }
            #expect(bench.perSubject.keeper(for: "b", by: .client(nil)).problem == nil)
        }
    }

    @Test func whoLeavesWhileWaitingLeavesNothingBehind() async throws {
        let endpoint = ScriptedTokenEndpoint([.held])
        try await PerSubjectBench(endpoint, limit: 1).running { bench in
            let keeper = try bench.perSubject.keeper(for: "a", by: .client(nil)).get()
            let answers = Mutex<[ProblemKind?]>([])
            let ticket = keeper.wait(for: .sample) { answer in answers.withLock { $0.append(answer.problem?.kind) } }
            try await endpoint.untilHeld()
            keeper.cancel(ticket)
            #expect(answers.withLock { $0 } == [.requestTimeout])
            #expect(!keeper.isIdle, "the call goes on")
            endpoint.release(.token("one", expiresIn: 3600))
            try await bench.audit.untilRecorded(.acquired)
            try await Self.until { keeper.isIdle }
            #expect(bench.perSubject.keeper(for: "b", by: .client(nil)).problem == nil)
            try await bench.untilEnded("app-user[a]")
            #expect(answers.withLock { $0.count } == 1)
        }
    }

    @Test func aSubjectIsAskedForOnDemandFromItsFirstCallOn() async throws {
        try await PerSubjectBench(Self.endpoint(), limit: 1).running { bench in
            for subject in ["a", "b", "a"] { _ = try await bench.credential(subject).get() }
            #expect(bench.audit.events.map(\.trigger).allSatisfy { $0 == .demand })
            #expect(bench.audit.events.filter { $0.name == .loaded }.map(\.subject) == ["a"])
            #expect(bench.endpoint.requests.count == 2)
        }
    }

    /// All are of one client: the last quarter is left to others.
    @Test func soManySubjectsCauseNoMoreCallsThanTheirPlacesMay() async throws {
        try await PerSubjectBench(Self.endpoint(), limit: 2).running { bench in
            let known = try await bench.credential("known").get()
            for number in 1..<90 { _ = try await bench.credential("invented-\(number)").get() }
            for number in 90..<100 {
                let problem = await bench.credential("invented-\(number)").problem
                #expect(problem?.kind == .tokenTemporarilyUnavailable)
                #expect(problem?.retryAfter == .seconds(60))
            }
            #expect(bench.endpoint.requests.count == 90)
            // Whose token is at hand goes on, and nobody has to ask for it.
            #expect(try await bench.credential("known").get().injection == known.injection)
            #expect(bench.endpoint.requests.count == 90)
            let said = bench.audit.events.filter { $0.detail["reason"] == "too_many_calls" }
            #expect(said.map(\.name) == [.acquisitionFailed])
            #expect(said.map(\.credential) == ["app-user"])
            #expect(said.map(\.subject) == [nil])
            bench.clock.advance(by: .seconds(60))
            _ = try await bench.credential("late").get()
            #expect(bench.endpoint.requests.count == 91)
        }
    }

    /// A client that names more subjects than have a place, in turn. Each is found in the store.
    @Test func soManySubjectsAreLookedForNoMoreOftenThanTheirPlacesMay() async throws {
        try await PerSubjectBench(Self.endpoint(), limit: 2).running { bench in
            var refused = 0
            for number in 0..<600 {
                if await bench.credential("known-\(number % 4)").problem != nil { refused += 1 }
            }
            #expect(bench.audit.count(of: .loaded) == 120)
            #expect(refused > 100 && bench.endpoint.requests.count == 4)
            let said = bench.audit.events.filter { $0.detail["reason"] == "too_many_calls" }
            #expect(said.map(\.credential) == ["app-user"])
        }
    }

    @Test func refusedRequestsOfManySubjectsAreFewRows() async throws {
        try await PerSubjectBench(Self.endpoint(), limit: 100).running { bench in
            for number in 0..<50 {
                let keeper = try bench.perSubject.keeper(for: "invented-\(number)", by: .client(nil)).get()
                keeper.note(.withheld, generation: 0, by: .sample)
            }
            try await bench.audit.untilRecorded(.withheld, times: 10)
            #expect(bench.audit.count(of: .withheld) == 10)
        }
    }

    @Test func keepersThatAReloadDroppedTakeNoNewSubject() async throws {
        try await PerSubjectBench(Self.endpoint(), limit: 10).running { bench in
            let credential = try await bench.credential("a").get()
            bench.perSubject.retire()
            try await bench.untilEnded("app-user[a]")
            #expect(try await bench.credential("a").get() === credential, "a request that began before")
            let problem = bench.perSubject.keeper(for: "b", by: .client(nil)).problem
            #expect(problem?.kind == .draining)
            #expect(problem?.retryAfter == .seconds(1))
        }
    }

    /// For what tells nobody when it happens.
    private static func until(_ holds: () -> Bool) async throws {
        for _ in 0..<100_000 where !holds() { await Task.yield() }
        try #require(holds())
    }
}
