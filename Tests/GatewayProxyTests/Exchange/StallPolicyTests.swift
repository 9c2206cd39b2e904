import Testing

@testable import GatewayProxy

@Suite("Stall policy", .timeLimit(.minutes(5)))
struct StallPolicyTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var requestIsComplete = true
        var awaitsContinue = false
        var clientIsWritable = true
        var upstreamIsWritable = true
        var last = TransferProgress.unknown
        let now: TransferProgress
        let stall: Stall?
    }

    private static func at(client: Int = 0, upstream: Int = 0, sent: Int? = nil) -> TransferProgress {
        TransferProgress(untakenByClient: client, untakenByUpstream: upstream, responseSent: sent)
    }

    private static let cases: [Case] = [
        Case(testDescription: "no response", now: at(), stall: .upstreamSilent),
        Case(testDescription: "a response that stops", now: at(sent: 10), stall: .responseStopped),
        Case(
            testDescription: "the upstream takes the request slowly",
            last: at(upstream: 100),
            now: at(upstream: 90),
            stall: nil
        ),
        Case(testDescription: "the first look finds a request on its way", now: at(upstream: 90), stall: nil),
        Case(
            testDescription: "the upstream takes nothing of the request",
            last: at(upstream: 90),
            now: at(upstream: 90),
            stall: .upstreamSilent
        ),
        Case(
            testDescription: "the request is on its way behind a response",
            last: at(upstream: 100, sent: 1),
            now: at(upstream: 90, sent: 1),
            stall: .responseStopped
        ),
        Case(
            testDescription: "the client takes the response slowly",
            clientIsWritable: false,
            last: at(client: 100, sent: 1),
            now: at(client: 99, sent: 1),
            stall: nil
        ),
        Case(
            testDescription: "the client takes nothing of the response",
            clientIsWritable: false,
            last: at(client: 99, sent: 1),
            now: at(client: 99, sent: 1),
            stall: .clientStoppedReading
        ),
        Case(
            testDescription: "the client has taken all, and is not writable: it is gone",
            clientIsWritable: false,
            now: at(sent: 1),
            stall: .clientStoppedReading
        ),
        Case(testDescription: "no content", requestIsComplete: false, now: at(), stall: .requestStopped),
        Case(
            testDescription: "no 100",
            requestIsComplete: false,
            awaitsContinue: true,
            now: at(),
            stall: .upstreamSilent
        ),
        Case(
            testDescription: "the upstream takes no content",
            requestIsComplete: false,
            upstreamIsWritable: false,
            last: at(upstream: 50),
            now: at(upstream: 50),
            stall: .upstreamStoppedReading
        ),
        Case(
            testDescription: "the upstream takes content slowly",
            requestIsComplete: false,
            upstreamIsWritable: false,
            last: at(upstream: 50),
            now: at(upstream: 49),
            stall: nil
        ),
        Case(
            testDescription: "what the upstream takes is no excuse for a client that sends nothing",
            requestIsComplete: false,
            last: at(upstream: 50),
            now: at(upstream: 49),
            stall: .requestStopped
        ),
        Case(
            testDescription: "an early response grows",
            requestIsComplete: false,
            last: at(sent: 10),
            now: at(sent: 11),
            stall: nil
        ),
        Case(
            testDescription: "an early response has begun",
            requestIsComplete: false,
            last: at(),
            now: at(sent: 0),
            stall: nil
        ),
        Case(
            testDescription: "an early response stands still",
            requestIsComplete: false,
            last: at(sent: 11),
            now: at(sent: 11),
            stall: .requestStopped
        ),
        Case(
            testDescription: "an early response is taken slowly",
            requestIsComplete: false,
            clientIsWritable: false,
            last: at(client: 9, sent: 11),
            now: at(client: 8, sent: 11),
            stall: nil
        ),
        Case(
            testDescription: "an early response is not taken",
            requestIsComplete: false,
            clientIsWritable: false,
            last: at(client: 9, sent: 11),
            now: at(client: 9, sent: 11),
            stall: .requestStopped
        ),
    ]

    @Test(arguments: cases)
    func whoHoldsUpATransferIsNamed(_ example: Case) {
        let policy = StallPolicy(
            requestIsComplete: example.requestIsComplete,
            awaitsContinue: example.awaitsContinue,
            clientIsWritable: example.clientIsWritable,
            upstreamIsWritable: example.upstreamIsWritable
        )
        #expect(policy.stall(from: example.last, to: example.now) == example.stall)
    }
}
