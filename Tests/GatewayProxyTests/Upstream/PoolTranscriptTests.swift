import Testing

@testable import GatewayProxy

@Suite("Pool: transcripts", .timeLimit(.minutes(5)))
struct PoolTranscriptTests {
    struct Transcript: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var maximumWaiters = 10
        let text: String
    }

    @Test(arguments: connections + waiting + urgent + exclusive + loops + closing)
    func thePoolAnswersAsWritten(_ transcript: Transcript) {
        let rules = PoolState.Rules(maximumWaiters: transcript.maximumWaiters, idleTimeout: .seconds(60))
        PoolScript.check(transcript.text, rules, ClientLeases(maximum: 1, clients: ClientNames([])))
    }

    private static let connections: [Transcript] = [
        Transcript(
            testDescription: "a connection is opened, used again and ends",
            text: """
                take       -> none
                connect a  -> ask
                granted    -> dial c1
                open c1
                back c1    -> rest 60000ms
                take       -> lease c1
                back c1    -> rest 60000ms
                end c1     -> give back, leave budget
                take       -> none
                """
        ),
        Transcript(
            testDescription: "an attempt that fails gives its place back",
            text: """
                connect a  -> ask
                granted    -> dial c1
                end c1     -> give back, leave budget
                end c1
                back c1    -> close
                """
        ),
        Transcript(
            testDescription: "the connection that was used last is taken first",
            text: """
                connect a  -> ask
                granted    -> dial c1
                connect b  -> ask
                granted    -> dial c2
                open c1
                open c2
                back c2    -> rest 60000ms
                back c1    -> rest 60000ms
                take       -> lease c1
                take       -> lease c2
                take       -> none
                """
        ),
        Transcript(
            testDescription: "a request that may be repeated looks after a rest of 5 ms, or when bytes may have come",
            text: """
                connect a      -> ask
                granted        -> dial c1
                open c1
                back c1        -> rest 60000ms
                at 5ms
                take           -> lease c1
                back c1        -> rest 60000ms
                at 11ms
                take           -> look c1
                back c1        -> rest 60000ms
                take input     -> look c1
                back c1        -> rest 60000ms
                take once      -> look c1
                back c1        -> rest 60000ms
                take closed    -> gone c1
                end c1         -> give back, leave budget
                """
        ),
        Transcript(
            testDescription:
                "a loop that does not rest takes what came back in its last two turns as it is, however long they are",
            text: """
                connect a                 -> ask
                granted                   -> dial c1
                open c1
                at 10ms
                back c1                   -> rest 60000ms
                at 40ms
                take busy 10ms            -> lease c1
                back c1                   -> rest 60000ms
                at 80ms
                take busy 41ms            -> look c1
                back c1                   -> rest 60000ms
                at 120ms
                take once busy 60ms       -> look c1
                back c1                   -> rest 60000ms
                at 160ms
                take input busy 100ms     -> look c1
                back c1                   -> rest 60000ms
                at 200ms
                take                      -> look c1
                """
        ),
        Transcript(
            testDescription: "a connection rests for less than the upstream keeps it",
            text: """
                connect a  -> ask
                granted    -> dial c1
                open c1
                back c1 90 -> rest 60000ms
                take       -> lease c1
                back c1 5  -> rest 4000ms
                take       -> lease c1
                back c1 1  -> rest 500ms
                take       -> lease c1
                back c1 0  -> rest 0ms
                take       -> close c1
                """
        ),
        Transcript(
            testDescription: "a rest that is over ends the connection, also when nobody has noticed yet",
            text: """
                connect a  -> ask
                granted    -> dial c1
                open c1
                back c1 5  -> rest 4000ms
                at 4s
                rest c1    -> close
                rest c1
                end c1     -> give back, leave budget
                connect a  -> ask
                granted    -> dial c2
                open c2
                back c2 5  -> rest 4000ms
                at 8s
                take       -> close c2
                rest c2
                end c2     -> give back, leave budget
                """
        ),
        Transcript(
            testDescription: "a connection lives for 10 minutes, however busy it is",
            text: """
                connect a  -> ask
                granted    -> dial c1
                open c1
                at 580s
                back c1    -> rest 20000ms
                at 599s
                take       -> look c1
                back c1    -> rest 1000ms
                take       -> lease c1
                at 600s
                back c1    -> close
                end c1     -> give back, leave budget
                """
        ),
        Transcript(
            testDescription: "a random number takes up to a tenth off the life of a connection",
            text: """
                connect a       -> ask
                granted         -> dial c1
                open c1 jitter
                at 540s
                back c1         -> rest 58ms
                """
        ),
        Transcript(
            testDescription: "a connection that ends while it rests is not taken",
            text: """
                connect a  -> ask
                granted    -> dial c1
                connect a  -> ask
                granted    -> dial c2
                open c1
                open c2
                back c1    -> rest 60000ms
                back c2    -> rest 60000ms
                end c1     -> give back
                take       -> lease c2
                take       -> none
                """
        ),
    ]

    private static let waiting: [Transcript] = [
        Transcript(
            testDescription: "a request waits for a connection that is put back, and is served on a turn of its own",
            text: """
                connect a    -> ask
                granted      -> dial c1
                open c1
                connect b    -> ask
                denied       -> wait w1
                back c1      -> rest 60000ms, later
                take         -> none
                turn         -> look at c1
                usable c1    -> lease c1 to w1, withdraw
                withdrawn intime
                """
        ),
        Transcript(
            testDescription: "a connection that turns out to have ended is passed over",
            text: """
                connect a    -> ask
                granted      -> dial c1
                open c1
                connect b    -> ask
                denied       -> wait w1
                back c1      -> rest 60000ms, later
                turn         -> look at c1
                broken c1
                end c1       -> give back
                grant        -> dial c2 for w1
                """
        ),
        Transcript(
            testDescription: "what becomes free belongs to the one who waits, not to the one who comes later",
            text: """
                connect a    -> ask
                granted      -> dial c1
                open c1
                connect b    -> ask
                denied       -> wait w1
                end c1       -> give back
                connect c    -> wait w2
                grant        -> dial c2 for w1, later
                turn         -> ask
                denied
                """
        ),
        Transcript(
            testDescription: "clients take turns",
            text: """
                connect a    -> ask
                granted      -> dial c1
                open c1
                connect a    -> ask
                denied       -> wait w1
                connect a    -> wait w2
                connect b    -> wait w3
                back c1      -> rest 60000ms, later
                turn         -> look at c1
                usable c1    -> lease c1 to w1
                back c1      -> rest 60000ms, later
                turn         -> look at c1
                usable c1    -> lease c1 to w3
                back c1      -> rest 60000ms, later
                turn         -> look at c1
                usable c1    -> lease c1 to w2, withdraw
                withdrawn intime
                """
        ),
        Transcript(
            testDescription: "a newcomer that finds no place is refused, or the client that holds the most gives way",
            maximumWaiters: 2,
            text: """
                connect a    -> ask
                granted      -> dial c1
                connect a    -> ask
                denied       -> wait w1
                connect a    -> wait w2
                connect a    -> refuse: full
                connect b    -> wait w3, refuse w2
                connect b    -> refuse: full
                connect c    -> refuse: full
                leave w2
                """
        ),
        Transcript(
            testDescription: "a pool in which nobody may wait asks for nothing in vain",
            maximumWaiters: 0,
            text: """
                connect a    -> ask
                granted      -> dial c1
                connect a    -> ask
                denied       -> refuse: full, withdraw
                withdrawn intime
                end c1       -> give back, leave budget
                """
        ),
        Transcript(
            testDescription: "a waiter that leaves withdraws what the pool has asked for",
            text: """
                connect a    -> ask
                denied       -> wait w1
                leave w1     -> withdraw
                withdrawn intime -> leave budget
                leave w1
                """
        ),
        Transcript(
            testDescription: "a waiter that was not served in time is refused",
            text: """
                connect a    -> ask
                denied       -> wait w1
                connect b    -> wait w2
                late w1      -> refuse w1: timedOut, later
                late w2      -> refuse w2: timedOut, withdraw
                withdrawn intime -> leave budget
                late w2
                turn
                """
        ),
        Transcript(
            testDescription: "a place that comes too late goes back",
            text: """
                connect a    -> ask
                denied       -> wait w1
                leave w1     -> withdraw
                withdrawn late
                grant        -> give back, leave budget
                """
        ),
        Transcript(
            testDescription: "a request that comes before such a place has it",
            text: """
                connect a    -> ask
                denied       -> wait w1
                leave w1     -> withdraw
                withdrawn late
                connect b    -> wait w2
                grant        -> dial c1 for w2
                """
        ),
        Transcript(
            testDescription: "a place that is granted serves waiters with idle connections first",
            text: """
                connect a    -> ask
                granted      -> dial c1
                open c1
                connect a    -> ask
                denied       -> wait w1
                connect a    -> wait w2
                back c1      -> rest 60000ms, later
                grant        -> look at c1
                usable c1    -> lease c1 to w1, dial c2 for w2
                turn
                """
        ),
    ]

    private static let urgent: [Transcript] = [
        Transcript(
            testDescription: "a request that lost its connection goes before those that wait",
            text: """
                connect a    -> ask
                granted      -> dial c1
                open c1
                connect b    -> ask
                denied       -> wait w1
                end c1       -> give back
                urgent c     -> wait w2, later
                grant        -> dial c2 for w2
                turn         -> ask
                denied
                """
        ),
        Transcript(
            testDescription: "it asks for a place although others wait",
            text: """
                connect a    -> ask
                denied       -> wait w1
                grant        -> dial c1 for w1
                turn
                connect a    -> ask
                denied       -> wait w2
                grant        -> dial c2 for w2
                urgent a     -> ask
                granted      -> dial c3
                """
        ),
        Transcript(
            testDescription: "it gets no connection that was open, but the place of one, and holds nobody up",
            text: """
                connect a    -> ask
                granted      -> dial c1
                connect a    -> ask
                granted      -> dial c2
                open c1
                open c2
                connect b    -> ask
                denied       -> wait w1
                urgent c     -> wait w2, later
                back c1      -> rest 60000ms
                back c2      -> rest 60000ms
                turn         -> ask for own
                own granted  -> close c1
                end c1       -> give back
                grant        -> dial c3 for w2, later
                turn         -> look at c2
                usable c2    -> lease c2 to w1
                """
        ),
        Transcript(
            testDescription: "the place of an idle connection is not taken when one is on its way",
            text: """
                connect a    -> ask
                granted      -> dial c1
                open c1
                urgent b     -> ask
                denied       -> wait w1, later
                back c1      -> rest 60000ms
                turn         -> ask for own
                own denied
                take         -> none
                grant        -> dial c2 for w1
                take         -> lease c1
                """
        ),
    ]

    private static let exclusive: [Transcript] = [
        Transcript(
            testDescription: "a private connection is never idle in the pool",
            text: """
                private a    -> ask
                granted      -> dial c1
                open c1
                keep c1      -> rest 60000ms
                take         -> none
                again c1
                keep c1 5    -> rest 4000ms
                again c1
                at 580s
                keep c1      -> rest 20000ms
                again c1
                at 600s
                keep c1      -> close
                end c1       -> give back, leave budget
                keep c1      -> close
                """
        ),
        Transcript(
            testDescription: "others get the place of one that has rested for long",
            text: """
                private a    -> ask
                granted      -> dial c1
                open c1
                keep c1      -> rest 60000ms
                at 1s
                connect b    -> ask
                denied       -> wait w1, later
                turn         -> look again in 100ms
                at 2s
                spare        -> look again in 100ms
                at 2001ms
                spare        -> ask for own
                own granted  -> close c1
                end c1       -> give back
                grant        -> dial c2 for w1
                """
        ),
        Transcript(
            testDescription: "one that its client uses again is not given away",
            text: """
                private a    -> ask
                granted      -> dial c1
                open c1
                connect b    -> ask
                denied       -> wait w1
                keep c1      -> rest 60000ms, later
                turn         -> look again in 100ms
                at 1900ms
                again c1
                spare
                keep c1      -> rest 60000ms, later
                at 2500ms
                turn         -> look again in 100ms
                at 3901ms
                spare        -> ask for own
                own granted  -> close c1
                """
        ),
        Transcript(
            testDescription: "a pool of another loop gets it likewise",
            text: """
                private a    -> ask
                granted      -> dial c1
                open c1
                keep c1      -> rest 60000ms
                others wait
                others       -> look again in 100ms
                at 3s
                spare        -> offer
                taken        -> close c1
                end c1       -> give back, leave budget
                """
        ),
        Transcript(
            testDescription: "what is closed for all is closed for private ones too",
            text: """
                private a    -> ask
                granted      -> dial c1
                open c1
                keep c1      -> rest 60000ms
                close        -> close c1
                close
                """
        ),
        Transcript(
            testDescription: "a retired pool keeps no private connection",
            text: """
                private a    -> ask
                granted      -> dial c1
                open c1
                retire
                keep c1      -> close
                """
        ),
        Transcript(
            testDescription: "a request for one gets no idle connection, but the place of one",
            text: """
                connect a    -> ask
                granted      -> dial c1
                open c1
                back c1      -> rest 60000ms
                private b    -> ask
                denied       -> wait w1, later
                turn         -> ask for own
                own granted  -> close c1
                end c1       -> give back
                grant        -> dial c2 for w1
                """
        ),
        Transcript(
            testDescription: "a request for one waits for its turn, as others do",
            text: """
                connect a    -> ask
                granted      -> dial c1
                open c1
                connect b    -> ask
                denied       -> wait w1
                private c    -> wait w2, later
                back c1      -> rest 60000ms
                turn         -> look at c1
                usable c1    -> lease c1 to w1
                back c1      -> rest 60000ms, later
                connect d    -> wait w3
                turn         -> ask for own
                own granted  -> close c1
                end c1       -> give back
                grant        -> dial c2 for w2, later
                turn         -> ask
                denied
                """
        ),
    ]

    private static let loops: [Transcript] = [
        Transcript(
            testDescription: "a connection that is put back goes to a loop that waits, if it has a right to it",
            text: """
                connect a    -> ask
                granted      -> dial c1
                connect a    -> ask
                granted      -> dial c2
                open c1
                open c2
                others wait
                back c1      -> offer
                back c1 kept -> rest 60000ms, later
                back c2      -> offer
                end c2       -> give back
                turn         -> look again in 10ms
                """
        ),
        Transcript(
            testDescription: "idle connections are given away once they have rested for 10 ms, the oldest first",
            text: """
                connect a    -> ask
                granted      -> dial c1
                connect a    -> ask
                granted      -> dial c2
                open c1
                open c2
                back c1      -> rest 60000ms
                at 5ms
                back c2      -> rest 60000ms
                at 11ms
                others wait
                others       -> offer
                taken        -> close c1, look again in 10ms
                end c1       -> give back
                others
                at 21ms
                spare        -> offer
                kept         -> look again in 10ms
                others go
                spare
                """
        ),
        Transcript(
            testDescription: "a pool with waiters of its own spares nothing",
            text: """
                connect a    -> ask
                granted      -> dial c1
                open c1
                connect a    -> ask
                denied       -> wait w1
                others wait
                others
                back c1      -> offer
                back c1 kept -> rest 60000ms, later
                turn         -> look at c1
                usable c1    -> lease c1 to w1, withdraw
                withdrawn intime
                """
        ),
        Transcript(
            testDescription: "no connection is looked for again when none is idle",
            text: """
                connect a    -> ask
                granted      -> dial c1
                open c1
                others wait
                others
                spare
                """
        ),
    ]

    private static let closing: [Transcript] = [
        Transcript(
            testDescription: "a retired pool keeps no connection",
            text: """
                connect a    -> ask
                granted      -> dial c1
                connect a    -> ask
                granted      -> dial c2
                open c1
                open c2
                back c1      -> rest 60000ms
                retire
                close        -> close c1
                close
                end c1       -> give back
                back c2      -> close
                end c2       -> give back, leave budget
                connect b    -> ask
                granted      -> dial c3
                open c3
                back c3      -> close
                """
        ),
        Transcript(
            testDescription: "a retired pool keeps a connection for a request that waits, but not when it has left",
            text: """
                connect a    -> ask
                granted      -> dial c1
                open c1
                connect b    -> ask
                denied       -> wait w1
                retire
                back c1      -> rest 60000ms, later
                leave w1     -> withdraw
                withdrawn intime
                turn         -> close c1
                end c1       -> give back, leave budget
                """
        ),
    ]
}
