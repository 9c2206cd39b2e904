import Testing

@testable import GatewayProxy

/// What a client that has more connections in use than its share waits for. Of four places a client may have three.
@Suite("Pool: shares of clients", .timeLimit(.minutes(5)))
struct PoolShareTranscriptTests {
    struct Transcript: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var maximumWaiters = 10
        var maximum = 4
        var clients = ["a", "b"]
        /// Three requests of the client a are under way, and one place is free.
        var beginsWithThree = true
        let text: String
    }

    private static let three = """
        connect a    -> ask
        granted      -> dial c1
        connect a    -> ask
        granted      -> dial c2
        connect a    -> ask
        granted      -> dial c3
        open c1
        open c2
        open c3

        """

    @Test(arguments: requests + waiting + urgentAndPrivate + loops)
    func thePoolAnswersAsWritten(_ transcript: Transcript) {
        let rules = PoolState.Rules(maximumWaiters: transcript.maximumWaiters, idleTimeout: .seconds(60))
        let leases = ClientLeases(maximum: transcript.maximum, clients: ClientNames(transcript.clients))
        PoolScript.check((transcript.beginsWithThree ? Self.three : "") + transcript.text, rules, leases)
    }

    private static let requests: [Transcript] = [
        Transcript(
            testDescription: "a client at its share waits, and another one gets the place that is left",
            text: """
                connect a    -> wait w1, look again in 100ms
                connect b    -> ask
                granted      -> dial c4
                """
        ),
        Transcript(
            testDescription: "an idle connection is left to another client",
            text: """
                connect b    -> ask
                granted      -> dial c4
                open c4
                back c4      -> rest 60000ms
                take by a    -> none
                connect a    -> wait w1, look again in 100ms
                take by b    -> lease c4
                back c4      -> rest 60000ms, later
                take by b    -> none
                turn
                take by b    -> lease c4
                """
        ),
        Transcript(
            testDescription: "it is served when a request of its own ends",
            text: """
                connect a    -> wait w1, look again in 100ms
                back c2      -> rest 60000ms, later
                turn         -> look at c2
                usable c2    -> lease c2 to w1
                spare
                """
        ),
        Transcript(
            testDescription: "it is served when a connection of its own ends",
            text: """
                connect a    -> wait w1, look again in 100ms
                end c2       -> give back, later
                turn         -> ask
                granted      -> dial c4 for w1
                """
        ),
        Transcript(
            testDescription: "without names of clients every place is for everyone",
            clients: [],
            text: """
                connect a    -> ask
                granted      -> dial c4
                open c4
                back c4      -> rest 60000ms
                take by a    -> lease c4
                connect a    -> ask
                denied       -> wait w1
                """
        ),
        Transcript(
            testDescription: "requests without a name are one client",
            text: """
                end c1       -> give back
                end c2       -> give back
                end c3       -> give back, leave budget
                connect      -> ask
                granted      -> dial c4
                connect      -> ask
                granted      -> dial c5
                connect      -> ask
                granted      -> dial c6
                connect      -> wait w1, look again in 100ms
                """
        ),
        Transcript(
            testDescription: "one client alone gets three quarters of the places",
            maximum: 8,
            beginsWithThree: false,
            text: """
                connect a    -> ask
                granted      -> dial c1
                connect a    -> ask
                granted      -> dial c2
                connect a    -> ask
                granted      -> dial c3
                connect a    -> ask
                granted      -> dial c4
                connect a    -> ask
                granted      -> dial c5
                connect a    -> ask
                granted      -> dial c6
                connect a    -> wait w1, look again in 100ms
                connect a    -> wait w2
                """
        ),
    ]

    private static let waiting: [Transcript] = [
        Transcript(
            testDescription: "requests that end on another loop are noticed after 100 ms",
            text: """
                end c1       -> give back
                elsewhere a
                connect a    -> wait w1, look again in 100ms
                connect a    -> wait w2
                at 100ms
                spare        -> look again in 100ms
                elsewhere a ends
                at 200ms
                spare        -> ask
                granted      -> dial c4 for w1, look again in 100ms
                """
        ),
        Transcript(
            testDescription: "a client that is passed over keeps its turn",
            text: """
                connect b    -> ask
                granted      -> dial c4
                open c4
                connect a    -> wait w1, look again in 100ms
                connect b    -> ask
                denied       -> wait w2
                connect b    -> wait w3
                back c4      -> rest 60000ms, later
                turn         -> look at c4
                usable c4    -> lease c4 to w2
                back c1      -> rest 60000ms, later
                back c2      -> rest 60000ms
                turn         -> look at c2
                usable c2    -> lease c2 to w1, look at c1
                usable c1    -> lease c1 to w3, withdraw
                withdrawn intime
                """
        ),
        Transcript(
            testDescription: "no place is asked for that no waiter may have",
            text: """
                connect b    -> ask
                granted      -> dial c4
                connect b    -> ask
                denied       -> wait w1
                connect a    -> wait w2
                leave w1     -> later
                turn         -> withdraw
                withdrawn intime -> look again in 100ms
                """
        ),
        Transcript(
            testDescription: "a place that comes too late goes back",
            text: """
                connect b    -> ask
                granted      -> dial c4
                connect b    -> ask
                denied       -> wait w1
                connect a    -> wait w2
                leave w1     -> later
                turn         -> withdraw
                withdrawn late -> look again in 100ms
                grant        -> give back, later
                turn
                """
        ),
        Transcript(
            testDescription: "a client at its share gives way when the queue is full",
            maximumWaiters: 2,
            text: """
                connect b    -> ask
                granted      -> dial c4
                connect a    -> wait w1, look again in 100ms
                connect a    -> wait w2
                connect a    -> refuse: full
                connect b    -> ask
                denied       -> wait w3, refuse w2, later
                turn
                late w1      -> refuse w1: timedOut, later
                """
        ),
    ]

    private static let urgentAndPrivate: [Transcript] = [
        Transcript(
            testDescription: "a request that lost its connection gets another one, if its client is within its share",
            text: """
                end c1       -> give back
                urgent a     -> ask
                granted      -> dial c4
                urgent a     -> wait w1, look again in 100ms, later
                turn
                urgent b     -> ask
                granted      -> dial c5
                """
        ),
        Transcript(
            testDescription: "a private connection without a request counts for its client",
            beginsWithThree: false,
            text: """
                private a    -> ask
                granted      -> dial c1
                private a    -> ask
                granted      -> dial c2
                private a    -> ask
                granted      -> dial c3
                open c1
                open c2
                open c3
                keep c1      -> rest 60000ms
                private a    -> wait w1, look again in 100ms, later
                turn
                private b    -> ask
                granted      -> dial c4
                """
        ),
        Transcript(
            testDescription: "one of its own that has rested for long is closed for it",
            beginsWithThree: false,
            text: """
                private a    -> ask
                granted      -> dial c1
                private a    -> ask
                granted      -> dial c2
                private a    -> ask
                granted      -> dial c3
                open c1
                open c2
                open c3
                keep c2      -> rest 60000ms
                keep c1      -> rest 60000ms
                private a    -> wait w1, look again in 100ms, later
                turn
                at 2001ms
                spare        -> close c2, look again in 100ms
                end c2       -> give back, later
                turn         -> ask
                granted      -> dial c4 for w1
                """
        ),
    ]

    private static let loops: [Transcript] = [
        Transcript(
            testDescription: "a used connection is not for a private request that came within its share meanwhile",
            text: """
                connect b    -> ask
                granted      -> dial c4
                open c4
                private a    -> wait w1, look again in 100ms, later
                turn
                connect b    -> ask
                denied       -> wait w2
                back c4      -> rest 60000ms, later
                turn         -> look at c4
                end c1       -> give back, later
                end c2       -> give back
                usable c4    -> lease c4 to w2
                """
        ),
        Transcript(
            testDescription: "what a client has on other loops counts",
            beginsWithThree: false,
            text: """
                elsewhere a
                elsewhere a
                connect a    -> ask
                granted      -> dial c1
                connect a    -> wait w1, look again in 100ms
                """
        ),
        Transcript(
            testDescription: "a client within its share asks for the place of an idle connection of another loop",
            maximum: 8,
            text: """
                connect a    -> ask
                denied       -> wait w1
                grant        -> dial c4 for w1
                """
        ),
        Transcript(
            testDescription: "an idle connection that only a client over its share waits for goes to another loop",
            text: """
                connect b    -> ask
                granted      -> dial c4
                open c4
                back c4      -> rest 60000ms
                connect a    -> wait w1, look again in 100ms
                at 11ms
                others wait
                others       -> offer
                taken        -> close c4
                """
        ),
        Transcript(
            testDescription: "a retired pool keeps no connection for a client over its share",
            text: """
                connect b    -> ask
                granted      -> dial c4
                open c4
                connect a    -> wait w1, look again in 100ms
                retire
                back c4      -> rest 60000ms, later
                turn         -> close c4
                end c4       -> give back, later
                """
        ),
    ]
}
