import Testing

@testable import GatewayHTTP
@testable import GatewayProxy

/// Plays a pool from lines such as `connect a -> ask`. Behind the arrow stands what the pool answers, up to its next question.
///
/// `elsewhere a` is a request of the client a on another loop, `elsewhere a stream` is one over HTTP/2, and `elsewhere a ends` is the
/// end of the first.
/// `stream by a`, `reconnect by a` and `ends c1 by a` are about streams of the client a.
/// `take busy 7ms` takes a connection in a loop whose turn before began then, and that has not rested since.
/// Connections are `c1`, `c2` in the order in which they are dialled, waiters `w1`, `w2`. `at 5s` and `at 20ms` set the clock.
struct PoolScript: ~Copyable {
    private var pool: PoolState
    private var now = MonotonicTime(nanoseconds: 0)
    private var othersWait = false
    private let leases: ClientLeases
    private var connections: [ConnectionID] = []
    private var waiters: [WaiterTicket] = []

    init(_ rules: PoolState.Rules, _ leases: ClientLeases) {
        self.leases = leases
        pool = PoolState(rules, leases)
    }

    private var situation: PoolSituation { PoolSituation(now: now, othersWait: othersWait) }

    static func check(_ text: String, _ rules: PoolState.Rules, _ leases: ClientLeases) {
        var script = PoolScript(rules, leases)
        for (number, line) in text.split(separator: "\n").enumerated() {
            let parts = line.split(separator: "->").map { part in
                part.split(separator: " ").joined(separator: " ")
            }
            guard let event = parts.first else { continue }
            let answer = script.play(event.split(separator: " ").map(String.init))
            #expect(answer == (parts.count > 1 ? parts[1] : ""), "line \(number + 1): \(event)")
        }
    }

    private mutating func play(_ words: [String]) -> String {
        let argument = words.count > 1 ? words[1] : ""
        switch words[0] {
        case "at": now = time(argument)
        case "others" where words.count > 1: othersWait = argument == "wait"
        case "elsewhere":
            let client = leases.client(argument)
            let lease: ClientLeases.Lease = words.contains("stream") ? .stream : .connection
            if words.contains("ends") { leases.remove(client, lease) } else { leases.add(client, lease) }
        case "retire": pool.retire()
        case "open": pool.opened(connection(argument), jitter: words.count > 2 ? .max : 0, at: now)
        case "take": return take(words)
        case "stream": return pool.takeStream(for: client(words), at: now).map { "lease \(name($0))" } ?? "none"
        case "reconnect":
            return pool.takeUrgentStream(for: client(words), at: now).map { "lease \(name($0))" } ?? "none"
        case "ends": return text(pool.streamEnded(connection(argument), of: client(words), situation))
        case "goaway": return pool.retireConnection(connection(argument)) ? "close" : ""
        case "shared":
            return run(pool.openedShared(connection(argument), streamLimit: number(words), jitter: 0, situation))
        case "alone": return run(pool.openedAlone(connection(argument), jitter: 0, situation))
        case "limit": return run(pool.streamLimitChanged(connection(argument), to: number(words), situation))
        case "back": return back(connection(argument), words)
        case "keep": return keep(connection(argument), words)
        case "again": pool.takePrivate(connection(argument))
        case "close": return pool.nextToClose().map { "close \(name($0))" } ?? ""
        case "rest": return pool.removeIdle(connection(argument)) ? "close" : ""
        default: return run(step(words[0], argument))
        }
        return ""
    }

    private mutating func step(_ event: String, _ argument: String) -> PoolStep {
        switch event {
        case "connect", "urgent", "private":
            let client = argument.isEmpty ? nil : argument
            return pool.connect(client: client, isUrgent: event == "urgent", isPrivate: event == "private", situation)
        case "granted", "denied": return pool.placeAnswered(isGranted: event == "granted", situation)
        case "grant": return pool.placeGranted(situation)
        case "turn": return pool.serve(situation)
        case "usable", "broken": return pool.looked(isUsable: event == "usable", at: connection(argument), situation)
        case "own": return pool.ownPlaceAnswered(isGranted: argument == "granted", situation)
        case "withdrawn": return pool.requestWithdrawn(inTime: argument == "intime", situation)
        case "taken", "kept": return pool.offerAnswered(isTaken: event == "taken", situation)
        case "end": return pool.ended(connection(argument), situation)
        case "leave": return pool.leave(waiter(argument), situation)
        case "late": return pool.timedOut(waiter(argument))
        case "others": return pool.othersBeganToWait(situation)
        case "spare": return pool.spareTimePassed(situation)
        default:
            Issue.record("unknown event: \(event)")
            return .nothing
        }
    }

    private mutating func run(_ first: PoolStep) -> String {
        var (step, texts) = (first, [String]())
        while step != .nothing {
            texts.append(text(step))
            switch step {
            case .askForPlace, .askForOwnPlace, .withdrawRequest, .look, .offerIdle:
                return texts.joined(separator: ", ")
            default: step = pool.next(situation)
            }
        }
        return texts.joined(separator: ", ")
    }

    private mutating func take(_ words: [String]) -> String {
        let client = client(words)
        guard let next = pool.next(for: client) else { return "none" }
        let action = pool.take(
            for: client,
            mayRepeat: !words.contains("once"),
            isOpen: !words.contains("closed"),
            mayHaveInput: words.contains("input"),
            busySince: words.firstIndex(of: "busy").map { time(words[$0 + 1]) },
            at: now
        )
        return "\(action) \(name(next))"
    }

    private mutating func back(_ connection: ConnectionID, _ words: [String]) -> String {
        let answer = pool.putBack(
            connection,
            keepAliveSeconds: words.last.flatMap { Int($0) },
            wasOffered: words.contains("kept"),
            situation
        )
        return text(answer)
    }

    private func text(_ answer: PoolReturn) -> String {
        switch answer {
        case .close: return "close"
        case .offer: return "offer"
        case .rest(let until, let servesLater):
            return "rest \((until - now).wholeMilliseconds)ms" + (servesLater ? ", later" : "")
        case .goOn(let servesLater): return servesLater ? "go on, later" : "go on"
        }
    }

    private mutating func keep(_ connection: ConnectionID, _ words: [String]) -> String {
        text(pool.keepPrivate(connection, keepAliveSeconds: words.last.flatMap { Int($0) }, situation))
    }

    // MARK: Names

    private mutating func text(_ step: PoolStep) -> String {
        switch step {
        case .nothing: return "nothing"
        case .dial(let connection, nil): return "dial \(name(connection))"
        case .dial(let connection, let waiter?): return "dial \(name(connection)) for \(name(waiter))"
        case .wait(let waiter): return "wait \(name(waiter))"
        case .displace(let displaced, let waiter): return "wait \(name(waiter)), refuse \(name(displaced))"
        case .refuseNewcomer(let reason): return "refuse: \(reason)"
        case .refuse(let waiter, let reason): return "refuse \(name(waiter)): \(reason)"
        case .fail(let waiter): return "fail \(name(waiter))"
        case .look(let connection): return "look at \(name(connection))"
        case .lease(let connection, let waiter): return "lease \(name(connection)) to \(name(waiter))"
        case .serveLater: return "later"
        case .close(let connection): return "close \(name(connection))"
        case .spareLater(let pause): return "look again in \(pause.wholeMilliseconds)ms"
        case .askForPlace: return "ask"
        case .askForOwnPlace: return "ask for own"
        case .withdrawRequest: return "withdraw"
        case .giveBackPlace: return "give back"
        case .offerIdle: return "offer"
        case .leaveBudget: return "leave budget"
        }
    }

    private mutating func name(_ connection: ConnectionID) -> String {
        if !connections.contains(connection) { connections.append(connection) }
        return "c\((connections.firstIndex(of: connection) ?? 0) + 1)"
    }

    private mutating func name(_ waiter: WaiterTicket) -> String {
        if !waiters.contains(waiter) { waiters.append(waiter) }
        return "w\((waiters.firstIndex(of: waiter) ?? 0) + 1)"
    }

    private func connection(_ name: String) -> ConnectionID { connections[(Int(name.dropFirst()) ?? 1) - 1] }
    private func waiter(_ name: String) -> WaiterTicket { waiters[(Int(name.dropFirst()) ?? 1) - 1] }

    private func client(_ words: [String]) -> PoolClient {
        pool.client(words.firstIndex(of: "by").map { words[$0 + 1] })
    }

    private func number(_ words: [String]) -> Int { words.last.flatMap { Int($0) } ?? 0 }

    private func time(_ text: String) -> MonotonicTime {
        let number = Int(text.prefix { $0.isNumber }) ?? 0
        return MonotonicTime(nanoseconds: 0) + (text.hasSuffix("ms") ? .milliseconds(number) : .seconds(number))
    }
}
