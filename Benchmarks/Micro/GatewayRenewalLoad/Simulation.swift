import GatewayEvents
import GatewayHTTP
import GatewayTokens

/// How often a fleet calls an authority: one ``TokenLifecycle`` for each token, with the pauses and the jitter that it
/// decides, and an authority instead of the network. Time is simulated.
///
/// The gateways share their tokens, so a token has one machine, whatever the number of gateways.
struct Simulation {
    struct Scenario {
        var name: String
        var tokens: Int
        var lifetime: Duration = .seconds(3600)
        /// Requests of each token in a second, at random times.
        var requestsPerSecond = 0.1
        /// Tokens that are there at the beginning, with ends spread over their lifetime. Otherwise nothing is there.
        var beginsSteady = true
        /// When the authority refuses connections, in seconds from the beginning.
        var outage: Range<Int64>?
        /// Calls that the authority answers in a second; it answers others with 429.
        var capacity = Int.max
        var answersAfter: Duration = .milliseconds(200)
        /// In seconds.
        var length: Int64
    }

    private final class Token {
        var machine: TokenLifecycle<Int>
        /// The time that the machine asked for. Other wake-ups are stale.
        var wakeAt: Int64 = .max
        var call: TokenCall?
        var willSucceed = false
        var hasDemand = false

        init(_ machine: consuming TokenLifecycle<Int>) { self.machine = machine }
    }

    let scenario: Scenario
    private var tokens: [Token] = []
    private var queue = EventQueue()
    private var random: Random
    private(set) var result: LoadResult
    private let injection = Injection.authorization(scheme: "Bearer", Secret("token"))
    private let demand = CredentialRequest(route: "api", client: nil, requestID: "r")

    init(_ scenario: Scenario, seed: UInt64) {
        self.scenario = scenario
        random = Random(state: seed)
        result = LoadResult(seconds: Int(scenario.length))
    }

    mutating func run() -> LoadResult {
        for number in 0..<scenario.tokens { begin(number) }
        while let event = queue.next(), event.at < scenario.length * 1000 {
            let token = tokens[Int(event.token)]
            switch event.kind {
            case .wake:
                guard token.wakeAt == event.at else { continue }
                step(token, event)
            case .demand:
                token.hasDemand = false
                request(token, event)
            case .answer: answer(token, event)
            }
        }
        return result
    }

    // MARK: One token

    private mutating func begin(_ number: Int) {
        let rules = TokenLifecycle<Int>.Rules(name: "token", isRenewable: true)
        let token = Token(TokenLifecycle(rules))
        tokens.append(token)
        // The first look finds what is stored.
        guard case .call(let look) = token.machine.next(at: Self.moment(0).monotonic) else { return }
        if scenario.beginsSteady {
            // In a steady state none is older than the time of its renewal.
            let age = scenario.lifetime * (0.895 * random.next())
            let fresh = fresh(1, at: Self.moment(0).wall + (.zero - age))
            _ = token.machine.obtained(fresh, by: look, at: Self.moment(0), jitter: random.next())
            result.live += 1
        } else {
            token.machine.foundNothing(by: look)
        }
        let start = EventQueue.Event(at: 0, token: Int32(number), kind: .wake)
        step(token, start)
        if !scenario.beginsSteady { addDemand(token, start) }
    }

    /// Does what the machine says until it sleeps.
    private mutating func step(_ token: Token, _ event: EventQueue.Event) {
        token.wakeAt = .max
        while true {
            switch token.machine.next(at: Self.moment(event.at).monotonic) {
            case .call(let call): return send(call, of: token, event)
            case .storm: result.storms += 1
            case .expired:
                result.live -= 1
                addDemand(token, event)
            case .expiringSoon: break
            case .sleep(let until):
                guard let until else { return }
                token.wakeAt = max(Self.milliseconds(until), event.at + 1)
                queue.add(EventQueue.Event(at: token.wakeAt, token: event.token, kind: .wake))
                return
            }
        }
    }

    private mutating func send(_ call: TokenCall, of token: Token, _ event: EventQueue.Event) {
        let second = event.at / 1000
        let isAway = scenario.outage?.contains(second) ?? false
        let number = result.count(callAt: Int(second))
        token.call = call
        token.willSucceed = !isAway && number <= scenario.capacity
        // A refused connection is known at once.
        let delay = isAway ? 1 : scenario.answersAfter.wholeMilliseconds
        queue.add(EventQueue.Event(at: event.at + Int64(delay), token: event.token, kind: .answer))
    }

    private mutating func answer(_ token: Token, _ event: EventQueue.Event) {
        guard let call = token.call else { return }
        token.call = nil
        let now = Self.moment(event.at)
        if token.willSucceed {
            let wasLive = token.machine.held?.isLive(at: now.monotonic) ?? false
            let fresh = fresh(token.machine.generation + 1, at: now.wall)
            _ = token.machine.obtained(fresh, by: call, at: now, jitter: random.next())
            if !wasLive { result.live += 1 }
            result.successes += 1
        } else {
            let problem = GatewayProblem(.tokenTemporarilyUnavailable, "away")
            let failure = TokenFailure(.transient(retryAfter: nil), problem: problem)
            let failed = token.machine.failed(failure, by: call, at: now.monotonic, jitter: random.next())
            result.refused += failed?.waiters.count ?? 0
            result.failures += 1
        }
        result.note(liveAt: Int(event.at / 1000))
        step(token, event)
        if !(token.machine.held?.isLive(at: now.monotonic) ?? false) { addDemand(token, event) }
    }

    // MARK: Requests, of interest only while there is no live token

    private mutating func addDemand(_ token: Token, _ event: EventQueue.Event) {
        guard !token.hasDemand, scenario.requestsPerSecond > 0 else { return }
        token.hasDemand = true
        let pause = random.exponential() / scenario.requestsPerSecond
        queue.add(EventQueue.Event(at: event.at + Int64(pause * 1000) + 1, token: event.token, kind: .demand))
    }

    private mutating func request(_ token: Token, _ event: EventQueue.Event) {
        let now = Self.moment(event.at).monotonic
        switch token.machine.need(by: 0, ticket: CredentialTicket(id: 0), for: demand, at: now) {
        case .use: return
        case .refuse:
            result.refused += 1
            addDemand(token, event)
        case .wait: addDemand(token, event)
        case .waitAndCall:
            step(token, event)
            addDemand(token, event)
        }
    }

    private func fresh(_ generation: Int, at time: UnixTime) -> FreshToken {
        let token = TokenSet(access: Secret("token"), obtainedAt: time, expiresAt: time + scenario.lifetime)
        return FreshToken(generation: generation, token: token, injection: injection)
    }

    private static func moment(_ milliseconds: Int64) -> Moment {
        let time = Duration.milliseconds(milliseconds)
        return Moment(monotonic: MonotonicTime(nanoseconds: 0) + time, wall: UnixTime(seconds: 1_772_357_400) + time)
    }

    private static func milliseconds(_ time: MonotonicTime) -> Int64 {
        Int64((time - MonotonicTime(nanoseconds: 0)).wholeMilliseconds)
    }
}
