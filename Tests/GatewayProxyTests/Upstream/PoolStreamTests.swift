import Testing

@testable import GatewayProxy

@Suite("Pool: streams of HTTP/2", .timeLimit(.minutes(5)))
struct PoolStreamTests {
    struct Transcript: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let text: String
    }

    @Test(arguments: opening + streams + ends)
    func thePoolAnswersAsWritten(_ transcript: Transcript) {
        var rules = PoolState.Rules(maximumWaiters: 10, idleTimeout: .seconds(60))
        rules.opensOneAtATime = true
        PoolScript.check(transcript.text, rules, ClientLeases(maximum: 2, clients: ClientNames([])))
    }

    /// Two connections of four streams: of these eight a client may have six.
    @Test(arguments: shares)
    func aClientGetsItsShareOfStreams(_ transcript: Transcript) {
        var rules = PoolState.Rules(maximumWaiters: 10, idleTimeout: .seconds(60))
        rules.opensOneAtATime = true
        PoolScript.check(transcript.text, rules, ClientLeases(maximum: 2, clients: ClientNames(["a", "b"])))
    }

    /// The client a has its six streams, and two are left on the second connection.
    private static let six = """
        connect a    -> ask
        granted      -> dial c1
        shared c1 4
        stream by a  -> lease c1
        stream by a  -> lease c1
        stream by a  -> lease c1
        stream by a  -> none
        connect a    -> ask
        granted      -> dial c2
        shared c2 4
        stream by a  -> lease c2
        stream by a  -> none

        """

    private static let shares: [Transcript] = [
        Transcript(
            testDescription:
                "a client at its share waits for a stream of its own to end, and another one does not wait",
            text: six + """
                connect a    -> wait w1, look again in 100ms
                stream by b  -> lease c2
                ends c2 by b -> go on, later
                turn
                ends c1 by a -> go on, later
                turn         -> lease c1 to w1
                stream by a  -> none
                reconnect by a -> none
                reconnect by b -> lease c2
                """
        ),
        Transcript(
            testDescription: "streams that end on another loop are noticed after 100 ms",
            text: """
                elsewhere a stream
                connect a    -> ask
                granted      -> dial c1
                shared c1 4
                elsewhere a stream
                elsewhere a stream
                elsewhere a stream
                elsewhere a stream
                stream by a  -> none
                connect a    -> wait w1, look again in 100ms
                elsewhere a stream ends
                at 100ms
                spare        -> lease c1 to w1
                """
        ),
        Transcript(
            testDescription: "streams of a connection that was lost count until their requests are over",
            text: six + """
                end c1       -> give back
                stream by a  -> none
                ends c1 by a -> close
                stream by a  -> lease c2
                """
        ),
        Transcript(
            testDescription: "room on a connection that takes no more streams counts as used",
            text: """
                connect a    -> ask
                granted      -> dial c1
                shared c1 4
                goaway c1
                connect a    -> ask
                granted      -> dial c2
                shared c2 4
                stream by a  -> lease c2
                stream by a  -> lease c2
                stream by a  -> none
                stream by b  -> lease c2
                ends c1 by a -> close
                ends c2 by b -> go on
                stream by a  -> none
                end c1       -> give back
                stream by a  -> lease c2
                """
        ),
        Transcript(
            testDescription: "a connection with HTTP/1 counts as all the streams that it could have had",
            text: """
                connect a    -> ask
                granted      -> dial c1
                shared c1 4
                elsewhere a
                stream by a  -> lease c1
                stream by a  -> none
                stream by b  -> lease c1
                """
        ),
        Transcript(
            testDescription: "a connection that turns out to be HTTP/1 counts as a connection",
            text: """
                connect a    -> ask
                granted      -> dial c1
                alone c1
                connect a    -> ask
                granted      -> dial c2
                open c2
                end c1       -> give back
                end c2       -> give back, leave budget
                """
        ),
        Transcript(
            testDescription: "a client keeps the streams of its only connection busy while the next one is opened",
            text: """
                connect a    -> ask
                granted      -> dial c1
                shared c1 4
                stream by a  -> lease c1
                stream by a  -> lease c1
                stream by a  -> lease c1
                connect a    -> ask
                granted      -> dial c2
                ends c1 by a -> go on
                stream by a  -> lease c1
                """
        ),
    ]

    private static let opening: [Transcript] = [
        Transcript(
            testDescription: "the first connection is opened alone, and carries all that waited for it",
            text: """
                connect a    -> ask
                granted      -> dial c1
                connect b    -> wait w1
                connect c    -> wait w2
                shared c1 10 -> later
                turn         -> lease c1 to w1, lease c1 to w2
                stream       -> lease c1
                """
        ),
        Transcript(
            testDescription: "the first connection speaks HTTP/1: each that waited gets its own",
            text: """
                connect a    -> ask
                granted      -> dial c1
                connect b    -> wait w1
                connect c    -> wait w2
                alone c1     -> later
                turn         -> ask
                granted      -> dial c2 for w1, ask
                granted      -> dial c3 for w2
                connect d    -> ask
                granted      -> dial c4
                """
        ),
        Transcript(
            testDescription: "the first connection cannot be opened: those that waited for it fail as it does",
            text: """
                connect a    -> ask
                granted      -> dial c1
                connect b    -> wait w1
                connect c    -> wait w2
                end c1       -> give back, fail w1, fail w2, leave budget
                connect d    -> ask
                """
        ),
        Transcript(
            testDescription: "a request that comes while the others fail waits for the next connection",
            text: """
                connect a    -> ask
                granted      -> dial c1
                end c1       -> give back, leave budget
                connect b    -> ask
                granted      -> dial c2
                shared c2 1
                """
        ),
    ]

    private static let streams: [Transcript] = [
        Transcript(
            testDescription: "beyond the limit of the upstream another connection is opened, one at a time",
            text: """
                connect a    -> ask
                granted      -> dial c1
                shared c1 2
                stream       -> lease c1
                stream       -> none
                connect b    -> ask
                granted      -> dial c2
                connect c    -> wait w1
                ends c1      -> go on, later
                turn         -> lease c1 to w1
                shared c2 2
                stream       -> lease c2
                ends c2      -> go on
                ends c2      -> rest 60000ms
                """
        ),
        Transcript(
            testDescription: "when no connection may be opened, a stream that ends serves the next",
            text: """
                connect a    -> ask
                granted      -> dial c1
                shared c1 1
                connect b    -> ask
                denied       -> wait w1
                ends c1      -> rest 60000ms, later
                turn         -> look at c1
                usable c1    -> lease c1 to w1, withdraw
                withdrawn intime
                stream       -> none
                """
        ),
        Transcript(
            testDescription: "the upstream lowers its limit below what is in use, and raises it again",
            text: """
                connect a    -> ask
                granted      -> dial c1
                shared c1 3
                stream       -> lease c1
                stream       -> lease c1
                limit c1 1
                ends c1      -> go on
                ends c1      -> go on
                connect b    -> ask
                denied       -> wait w1
                limit c1 2   -> later
                turn         -> lease c1 to w1, withdraw
                """
        ),
        Transcript(
            testDescription: "an upstream that allows no stream gets none",
            text: """
                connect a    -> ask
                granted      -> dial c1
                shared c1 0
                stream       -> none
                ends c1      -> rest 60000ms
                stream       -> none
                connect b    -> ask
                granted      -> dial c2
                connect c    -> wait w1
                shared c2 0  -> later
                turn         -> ask
                granted      -> dial c3 for w1
                """
        ),
        Transcript(
            testDescription: "a request that lost its connection takes a stream before those that wait",
            text: """
                connect a    -> ask
                granted      -> dial c1
                shared c1 2
                reconnect    -> lease c1
                reconnect    -> none
                """
        ),
        Transcript(
            testDescription: "no more than the gateway's own limit",
            text: """
                connect a    -> ask
                granted      -> dial c1
                shared c1 4000000000
                ends c1      -> rest 60000ms
                stream       -> lease c1
                """
        ),
    ]

    private static let ends: [Transcript] = [
        Transcript(
            testDescription:
                "after GOAWAY the streams end, no other one begins, and the last one closes the connection",
            text: """
                connect a    -> ask
                granted      -> dial c1
                shared c1 10
                stream       -> lease c1
                goaway c1
                stream       -> none
                connect b    -> ask
                granted      -> dial c2
                ends c1      -> go on
                ends c1      -> close
                end c1       -> give back
                """
        ),
        Transcript(
            testDescription: "GOAWAY on a connection without streams closes it",
            text: """
                connect a    -> ask
                granted      -> dial c1
                shared c1 10
                ends c1      -> rest 60000ms
                goaway c1    -> close
                end c1       -> give back, leave budget
                """
        ),
        Transcript(
            testDescription: "a connection that is too old takes no more streams",
            text: """
                connect a    -> ask
                granted      -> dial c1
                shared c1 10
                stream       -> lease c1
                at 601s
                stream       -> none
                ends c1      -> go on
                ends c1      -> close
                """
        ),
        Transcript(
            testDescription: "a reload lets the streams end",
            text: """
                connect a    -> ask
                granted      -> dial c1
                shared c1 10
                stream       -> lease c1
                retire
                ends c1      -> go on
                ends c1      -> close
                """
        ),
        Transcript(
            testDescription: "the connection is lost with its streams",
            text: """
                connect a    -> ask
                granted      -> dial c1
                shared c1 10
                stream       -> lease c1
                end c1       -> give back, leave budget
                ends c1      -> close
                stream       -> none
                """
        ),
        Transcript(
            testDescription: "a connection without streams goes to another loop that waits",
            text: """
                connect a    -> ask
                granted      -> dial c1
                shared c1 10
                others wait
                ends c1      -> offer
                back c1 kept -> rest 60000ms, later
                """
        ),
        Transcript(
            testDescription: "what rested is used again until it has rested for long",
            text: """
                connect a    -> ask
                granted      -> dial c1
                shared c1 10
                ends c1      -> rest 60000ms
                at 59s
                stream       -> lease c1
                ends c1      -> rest 60000ms
                rest c1      -> close
                end c1       -> give back, leave budget
                """
        ),
    ]
}
