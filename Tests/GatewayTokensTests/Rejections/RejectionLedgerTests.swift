import Testing

@testable import GatewayHTTP
@testable import GatewayTokens

/// Each transcript reads as what the upstream did and, behind the arrow, what the ledger makes of it.
@Suite("Rejection ledger: transcripts", .timeLimit(.minutes(5)))
struct RejectionLedgerTests {
    struct Line: Sendable {
        let second: Int
        let path: String
        let generation: Int
        var client: String? = "a"
        var isConfirmed = false
        /// The token of this generation is the second one that the same request tried, and it was accepted.
        var isAcceptedAgain = false
        /// nil where the token of this generation is the second one that the same request tried.
        var decision: RejectionLedger.RejectionDecision?
    }

    struct Transcript: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let lines: [Line]
    }

    @Test(arguments: transcripts)
    func theLedgerAnswersAsWritten(_ transcript: Transcript) {
        var ledger = RejectionLedger()
        for (number, line) in transcript.lines.enumerated() {
            let (key, now) = (ledgerKey(line.path), second(line.second))
            guard !line.isAcceptedAgain else {
                ledger.accepted(key, generation: line.generation, at: now)
                continue
            }
            guard let expected = line.decision else {
                ledger.rejectedAgain(key, generation: line.generation, at: now)
                continue
            }
            let decision = ledger.decision(
                for: key,
                generation: line.generation,
                client: line.client,
                isConfirmed: line.isConfirmed,
                at: now
            )
            #expect(decision == expected, "line \(number + 1)")
        }
    }
}

func ledgerKey(_ path: String, route: Int = 0) -> RejectionLedger.Key {
    let bytes = Array(path.utf8)
    return RejectionLedger.Key(
        route: route,
        template: PathTemplate(bytes.span, method: 0..<0, path: 0..<bytes.count)
    )
}

func second(_ number: Int) -> MonotonicTime { MonotonicTime(nanoseconds: 0) + .seconds(number) }

private typealias Transcript = RejectionLedgerTests.Transcript
private typealias Line = RejectionLedgerTests.Line

private func rejected(
    _ path: String,
    _ generation: Int,
    at second: Int,
    _ decision: RejectionLedger.RejectionDecision,
    by client: String? = "a"
) -> Line {
    Line(second: second, path: path, generation: generation, client: client, decision: decision)
}

/// The template has had a 2xx under this generation.
private func rejectedAfterSuccess(
    _ path: String,
    _ generation: Int,
    at second: Int,
    _ decision: RejectionLedger.RejectionDecision
) -> Line {
    Line(second: second, path: path, generation: generation, isConfirmed: true, decision: decision)
}

private func again(_ path: String, _ generation: Int, at second: Int) -> Line {
    Line(second: second, path: path, generation: generation)
}

private func acceptedAgain(_ path: String, _ generation: Int) -> Line {
    Line(second: 0, path: path, generation: generation, isAcceptedAgain: true)
}

private let transcripts: [Transcript] = [
    Transcript(
        testDescription: "a path that accepted the newer token rejects the next one: that counts at once",
        lines: [
            rejected("/x", 1, at: 0, .counts), acceptedAgain("/x", 2), rejected("/x", 3, at: 1, .counts),
            again("/x", 4, at: 1), acceptedAgain("/x", 4), rejected("/x", 5, at: 2, .suppressed),
        ]
    ),
    Transcript(
        testDescription: "that another path accepted the newer token, or this one the old token, ends no pause",
        lines: [
            rejected("/x", 1, at: 0, .counts), acceptedAgain("/y", 2), acceptedAgain("/x", 1),
            rejected("/x", 3, at: 1, .suppressed),
        ]
    ),
    Transcript(
        testDescription: "a revocation counts at once, and late rejections of the same token cost nothing",
        lines: [rejected("/x", 1, at: 0, .counts)]
            + (0..<100).map { rejected("/\($0 % 2 == 0 ? "x" : "y")", 1, at: 1, .counts) }
    ),
    Transcript(
        testDescription: "a path that rejects every token: probes after 10, 20, 40, 80, 160, 320, 600 and 600 s",
        lines: [
            rejected("/x", 1, at: 0, .counts), again("/x", 2, at: 0), rejected("/x", 2, at: 1, .suppressed),
            rejected("/x", 2, at: 9, .suppressed), rejected("/x", 2, at: 10, .counts), again("/x", 3, at: 10),
            rejected("/x", 3, at: 29, .suppressed), rejected("/x", 3, at: 30, .counts), again("/x", 4, at: 30),
            rejected("/x", 4, at: 69, .suppressed), rejected("/x", 4, at: 70, .counts), again("/x", 5, at: 70),
            rejected("/x", 5, at: 149, .suppressed), rejected("/x", 5, at: 150, .counts), again("/x", 6, at: 150),
            rejected("/x", 6, at: 309, .suppressed), rejected("/x", 6, at: 310, .counts), again("/x", 7, at: 310),
            rejected("/x", 7, at: 629, .suppressed), rejected("/x", 7, at: 630, .counts), again("/x", 8, at: 630),
            rejected("/x", 8, at: 1229, .suppressed), rejected("/x", 8, at: 1230, .counts), again("/x", 9, at: 1230),
            rejected("/x", 9, at: 1829, .suppressed), rejected("/x", 9, at: 1830, .counts),
        ]
    ),
    Transcript(
        testDescription: "the pause begins when the second token was rejected, once",
        lines: [
            rejected("/x", 1, at: 0, .counts), again("/x", 2, at: 8), again("/x", 2, at: 15),
            rejected("/x", 2, at: 17, .suppressed), rejected("/x", 2, at: 18, .counts),
        ]
    ),
    Transcript(
        testDescription: "a revocation is noticed where the token has worked, whatever other paths do",
        lines: [
            rejected("/x", 1, at: 0, .counts), again("/x", 2, at: 0), rejected("/x", 2, at: 1, .suppressed),
            rejectedAfterSuccess("/y", 2, at: 2, .counts), rejectedAfterSuccess("/x", 3, at: 3, .counts),
        ]
    ),
    Transcript(
        testDescription: "a revocation is noticed on a path of which nothing is known",
        lines: [
            rejected("/x", 1, at: 0, .counts), again("/x", 2, at: 0), rejected("/x", 2, at: 1, .suppressed),
            rejected("/z", 2, at: 2, .counts),
        ]
    ),
    Transcript(
        testDescription: "2xx elsewhere protects nothing: a path without one of its own is suppressed",
        lines: [
            rejected("/x", 1, at: 0, .counts), again("/x", 2, at: 0), rejectedAfterSuccess("/y", 2, at: 1, .counts),
            rejected("/x", 3, at: 2, .suppressed),
        ]
    ),
    Transcript(
        testDescription: "no renewal after each ordinary renewal",
        lines: [
            rejected("/x", 1, at: 0, .counts), again("/x", 2, at: 0), rejected("/x", 3, at: 5, .suppressed),
            rejected("/x", 3, at: 10, .counts), again("/x", 4, at: 10), rejected("/x", 5, at: 20, .suppressed),
            rejected("/x", 6, at: 29, .suppressed), rejected("/x", 6, at: 30, .counts),
        ]
    ),
    Transcript(
        testDescription: "two such paths do not end each other's pauses",
        lines: [
            rejected("/x", 1, at: 0, .counts), again("/x", 2, at: 0), rejected("/y", 2, at: 1, .counts),
            again("/y", 3, at: 1), rejected("/x", 3, at: 2, .suppressed), rejected("/y", 3, at: 2, .suppressed),
            rejected("/x", 3, at: 10, .counts), again("/x", 4, at: 10), rejected("/y", 4, at: 10, .suppressed),
            rejected("/y", 4, at: 11, .counts), again("/y", 5, at: 11), rejected("/x", 5, at: 29, .suppressed),
        ]
    ),
    Transcript(
        testDescription: "a client that leaves before the second response gains nothing",
        lines: [
            rejected("/x", 1, at: 0, .counts), rejected("/x", 2, at: 1, .suppressed),
            rejected("/x", 2, at: 10, .counts), rejected("/x", 3, at: 11, .suppressed),
            rejected("/x", 3, at: 29, .suppressed),
            rejected("/x", 3, at: 30, .counts),
        ]
    ),
    Transcript(
        testDescription: "a path that has accepted the token begins anew with 10 s",
        lines: [
            rejected("/x", 1, at: 0, .counts), rejected("/x", 2, at: 10, .counts), rejected("/x", 3, at: 30, .counts),
            rejectedAfterSuccess("/x", 4, at: 31, .counts), rejected("/x", 5, at: 40, .suppressed),
            rejected("/x", 5, at: 41, .counts),
        ]
    ),
    Transcript(
        testDescription: "a path that was not rejected for long begins anew with 10 s",
        lines: [
            rejected("/x", 1, at: 0, .counts), rejected("/x", 2, at: 10, .counts), rejected("/x", 3, at: 630, .counts),
            rejected("/x", 4, at: 639, .suppressed), rejected("/x", 4, at: 640, .counts),
        ]
    ),
    Transcript(
        testDescription: "a path that is in use now and then does not",
        lines: [
            rejected("/x", 1, at: 0, .counts), rejected("/x", 2, at: 10, .counts), rejected("/x", 3, at: 629, .counts),
            rejected("/x", 4, at: 668, .suppressed), rejected("/x", 4, at: 669, .counts),
        ]
    ),
    Transcript(
        testDescription: "a late second try with an older token changes nothing",
        lines: [
            rejected("/x", 5, at: 0, .counts), again("/x", 5, at: 5), again("/x", 4, at: 6),
            rejected("/x", 6, at: 10, .counts),
        ]
    ),
    Transcript(
        testDescription: "the second try of a late request begins a pause of its own",
        lines: [
            rejected("/x", 1, at: 0, .counts), rejected("/y", 1, at: 0, .counts), again("/y", 2, at: 1),
            rejected("/y", 2, at: 2, .suppressed), rejected("/y", 2, at: 11, .counts),
        ]
    ),
    Transcript(
        testDescription: "a rejection of a token that was replaced meanwhile costs nothing and changes nothing",
        lines: [rejected("/x", 2, at: 0, .counts), again("/x", 3, at: 0)]
            + (0..<50).map { _ in rejected("/y", 2, at: 1, .counts) }
            + [rejected("/y", 3, at: 1, .counts)]
    ),
]
