import GatewayAudit
import GatewayFiles
import GatewayHTTP
import GatewayTokens
import Testing

@testable import GatewayApp

/// What a command writes is what the listener reads.
@Suite("Bodies of operations", .timeLimit(.minutes(5)))
struct AdminInputTests {
    private func expectRoundTrip<Input: AdminJSONInput & Equatable>(_ input: Input) throws {
        let body = try #require(input.body)
        #expect(try Input(body: body) == input)
    }

    @Test func whatIsWrittenIsRead() throws {
        try expectRoundTrip(LoginOrder(credential: "b\u{e4}r \"x\"", way: .device, timeout: .milliseconds(1500)))
        try expectRoundTrip(LoginOrder(credential: "mcp", scopes: ["files:write", "a"]))
        #expect(throws: GatewayProblem.self) { try LoginOrder(body: Array(#"{"scopes": "a"}"#.utf8)) }
        #expect(throws: GatewayProblem.self) { try LoginOrder(body: Array(#"{"scopes": ["a", 1]}"#.utf8)) }
        try expectRoundTrip(DownscopeOptions(scopes: ["a", "b"], resource: "https://api.example.com/1"))
        try expectRoundTrip(DownscopeOptions(scopes: [], sharedLink: Secret("https://example.com/s/1")))
        try expectRoundTrip(ExplanationQuestion(input: "GET /a?b=\"c\"\n", client: "ci"))
        try expectRoundTrip(ExplanationQuestion(input: "1a2b"))
        for includesKeys in [true, false] {
            let body = try #require(BackupToNote(includesKeys: includesKeys).body)
            #expect(try BackupToNote(body: body).includesKeys == includesKeys)
        }
        try expectRoundTrip(AuditWhoQuestion(by: .status, since: "yesterday 14:00", until: "15:00"))
        #expect(try AuditWhoQuestion(body: []) == AuditWhoQuestion())
        #expect(try AuditWhoQuestion(body: Array("{}".utf8)) == AuditWhoQuestion())
        for token in [nil, Secret("a-token")] {
            let order = RunOrder(process: ProcessMark(number: .max, started: 1 << 40), token: token)
            let read = try RunOrder(body: order.body)
            #expect(read.process == order.process && read.token == token)
        }
        let body = try #require(PastedAnswer("http://127.0.0.1/?code=1").body)
        #expect(try PastedAnswer(body: body).text == "http://127.0.0.1/?code=1")
        let token = Array("{\"access_token\": \"a\"}\n".utf8)
        #expect(try TokenToImport(reading: token).body == token)
        #expect(NoInput().body == nil)
    }

    /// A message shows it.
    @Test func eachExampleCanBeRead() throws {
        _ = try LoginOrder(body: Array(LoginOrder.example.utf8))
        _ = try DownscopeOptions(body: Array(DownscopeOptions.example.utf8))
        _ = try ExplanationQuestion(body: Array(ExplanationQuestion.example.utf8))
        _ = try BackupToNote(body: Array(BackupToNote.example.utf8))
        _ = try AuditWhoQuestion(body: Array(AuditWhoQuestion.example.utf8))
        _ = try PastedAnswer(body: Array(PastedAnswer.example.utf8))
        _ = try RunOrder(body: Array(RunOrder.example.utf8))
    }

    /// Where askers take turns, nobody can ask in the name of another.
    @Test func whoAsksIsNotInTheBody() async throws {
        var question = AuditWhoQuestion()
        question.note(asker: "ann")
        #expect(question.asker == "ann")
        #expect(question.body == AuditWhoQuestion().body)
        #expect(throws: GatewayProblem.self) { try AuditWhoQuestion(body: Array(#"{"asker": "ben"}"#.utf8)) }
        var explanation = try ExplanationQuestion(body: Array(#"{"input": "1a2b", "asker": "ben"}"#.utf8))
        #expect(explanation.asker == nil)
        explanation.note(asker: "ann")
        var order = try RunOrder(body: Array(RunOrder.example.utf8))
        #expect(order.user == nil)
        let body = order.body
        await order.note { 1001 }
        #expect(order.user == 1001 && order.body == body)
        #expect(throws: GatewayProblem.self) {
            try RunOrder(body: Array(#"{"process": 1, "started": 1, "user": 0}"#.utf8))
        }
        #expect(explanation.asker == "ann" && explanation.body == ExplanationQuestion(input: "1a2b").body)
    }

    @Test func anotherWayIsNamedWithThoseThatThereAre() {
        #expect {
            try LoginOrder(body: Array(#"{"credential": "box", "way": "carrier pigeon"}"#.utf8))
        } throws: { error in
            (error as? GatewayProblem)?.detail == "Unknown login method; use one of browser, paste, device."
        }
    }

    @Test func aBodyThatIsTooLargeIsRefused() {
        #expect { try TokenToImport(body: nil) } throws: { ($0 as? GatewayProblem)?.kind == .contentTooLarge }
        for body in [
            nil, #"{"by": "upstream"}"#, #"{"since": 3}"#, #"{"until": null}"#, #"{"client": "ci"}"#, "[]", "x",
        ] {
            #expect { try AuditWhoQuestion(body: body.map { Array($0.utf8) }) } throws: {
                ($0 as? GatewayProblem)?.kind == .requestRefused
            }
        }
        for body in [
            #"{"process": 1}"#, #"{"process": 0, "started": 1}"#, #"{"process": 1.5, "started": 1}"#,
            #"{"process": 1, "started": -1}"#, #"{"process": 1, "started": 1, "token": 3}"#,
            #"{"process": 1, "started": 1, "client": "ci"}"#, #"{"process": 4294967296, "started": 1}"#,
        ] {
            #expect { try RunOrder(body: Array(body.utf8)) } throws: {
                ($0 as? GatewayProblem)?.kind == .requestRefused
            }
        }
        #expect { try BackupToNote(body: nil) } throws: { ($0 as? GatewayProblem)?.kind == .requestRefused }
    }
}
