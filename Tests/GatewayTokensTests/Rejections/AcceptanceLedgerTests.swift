import Testing

@testable import GatewayTokens

/// Each transcript reads as what the upstream answered to whom, and whether the credential is called rejected behind it.
@Suite("Acceptance ledger", .timeLimit(.minutes(1)))
struct AcceptanceLedgerTests {
    struct Transcript: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// `client path status`, a dot for a client without a name.
        let answers: [String]
        let isRejected: Bool

        init(_ name: String, _ answers: [String], isRejected: Bool) {
            (testDescription, self.answers, self.isRejected) = (name, answers, isRejected)
        }
    }

    private static func repeated(_ answer: String, _ count: Int = 5) -> [String] {
        Array(repeating: answer, count: count)
    }

    static let transcripts = [
        Transcript("nothing was sent", [], isRejected: false),
        Transcript("five on the only path", repeated(". /v1/chat 401"), isRejected: true),
        Transcript("four are too few", repeated(". /v1/chat 401", 4), isRejected: false),
        Transcript("on two paths", repeated(". /a 401", 4) + [". /b 401"], isRejected: true),
        Transcript(
            "one path of two rejects everybody",
            [". /b 200"] + repeated(". /a 401", 9),
            isRejected: false
        ),
        Transcript("the path that was accepted", [". /a 200"] + repeated(". /a 401"), isRejected: true),
        Transcript(
            "the path in use of two that were accepted",
            [". /a 200", ". /b 200"] + repeated(". /b 401"),
            isRejected: true
        ),
        Transcript(
            "both paths that were accepted",
            [". /a 200", ". /b 200"] + repeated(". /a 401", 4) + [". /b 401"],
            isRejected: true
        ),
        Transcript(
            "an acceptance between",
            repeated(". /a 401", 4) + [". /a 200"] + repeated(". /a 401", 4),
            isRejected: false
        ),
        Transcript("an acceptance afterwards", repeated(". /a 401", 9) + [". /a 200"], isRejected: false),
        Transcript("a 403 of a key that never worked", repeated(". /a 403"), isRejected: true),
        Transcript("a 403 of a key that works", [". /a 200"] + repeated(". /a 403", 9), isRejected: false),
        Transcript("clients are not added up", repeated("a /a 401", 3) + repeated("b /b 401", 3), isRejected: false),
        Transcript("another client was accepted", ["b /a 200"] + repeated("a /a 401", 9), isRejected: false),
        Transcript(
            "another client was accepted, and one of its requests is not",
            ["b /a 200"] + repeated("a /a 401", 9) + ["b /a 401"],
            isRejected: false
        ),
        Transcript(
            "another client was accepted, and is not any more",
            ["b /a 200"] + repeated("a /a 401") + repeated("b /a 401"),
            isRejected: true
        ),
        Transcript("the only client", ["a /a 200"] + repeated("a /a 401"), isRejected: true),
        Transcript(
            "another client ends the run",
            repeated("a /a 401", 4) + ["b /b 200", "a /a 401"],
            isRejected: false
        ),
    ]

    private static func ledger(after answers: [String], rules: AcceptanceLedger.Rules = .init()) -> AcceptanceLedger {
        var ledger = AcceptanceLedger(rules)
        for (number, answer) in answers.enumerated() {
            let parts = answer.split(separator: " ").map(String.init)
            let client = parts[0] == "." ? nil : parts[0]
            let (key, now) = (ledgerKey(parts[1]), second(number))
            guard let status = Int(parts[2]), status >= 400 else {
                ledger.accept(client, key, at: now)
                continue
            }
            ledger.reject(client, key, status: status, at: now)
        }
        return ledger
    }

    @Test(arguments: transcripts)
    func theLedgerAnswersAsWritten(_ transcript: Transcript) {
        let ledger = Self.ledger(after: transcript.answers)
        #expect((ledger.verdict(at: second(60)) != nil) == transcript.isRejected)
    }

    @Test func theVerdictSaysWhoseRequestsWereRejectedAndSinceWhen() {
        let verdict = Self.ledger(after: ["a /a 200"] + Self.repeated("a /a 401", 6)).verdict(at: second(60))
        #expect(verdict?.client == "a" && verdict?.rejections == 6 && verdict?.status == 401)
        #expect(verdict?.since == second(1))
    }

    @Test func anAcceptanceOfAnotherClientCountsForAWhile() {
        let ledger = Self.ledger(after: ["b /a 200"] + Self.repeated("a /a 401"))
        #expect(ledger.verdict(at: second(599)) == nil)
        #expect(ledger.verdict(at: second(600)) != nil)
    }

    @Test func whatDoesNotCountIsNotTheLastRejection() {
        let ledger = Self.ledger(after: [". /a 200", ". /a 403"])
        #expect(ledger.acceptedAt == second(0) && ledger.rejectedAt == nil && !ledger.hasRun)
    }

    @Test func clientsAreForgottenThatHaveNoRun() {
        var rules = AcceptanceLedger.Rules()
        rules.maximumClients = 2
        let ledger = Self.ledger(after: Self.repeated("a /a 401") + ["b /a 401", "c /a 401"], rules: rules)
        #expect(ledger.hasRun && ledger.verdict(at: second(60)) == nil)
        let other = Self.ledger(after: ["b /a 200"] + Self.repeated("a /a 401") + ["c /a 401"], rules: rules)
        #expect(other.verdict(at: second(10))?.client == "a")
    }
}
