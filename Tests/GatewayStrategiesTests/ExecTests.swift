import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Programs that print a token", .timeLimit(.minutes(5)))
struct ExecTests {
    private static let block: FixtureNode = ["command": ["print-token", "--for", "reports"]]

    private func program(_ block: FixtureNode) throws -> TokenProgram {
        guard case .run(let program) = try grant("exec", block).firstStep(holding: nil) else { throw WrongKind() }
        return program
    }

    private func token(_ output: String, _ block: FixtureNode = block) throws -> Result<TokenSet, TokenFailure> {
        try grant("exec", block).interpret(TokenReply(output: Array(output.utf8)), holding: nil, at: now)
    }

    @Test func theProgramIsDescribed() throws {
        let block: FixtureNode = [
            "command": ["./print-token", "a b", "$HOME"], "timeout": "3s",
            "environment": ["PROFILE": "production"],
        ]
        #expect(
            try program(block)
                == TokenProgram(
                    command: ["print-token", "a b", "$HOME"],
                    environment: [TokenProgram.Variable("PROFILE", Secret("production"))],
                    timeout: .seconds(3)
                )
        )
        #expect(try program(Self.block).timeout == .seconds(10))
    }

    @Test func pluginsOfKubernetesAreToldWhatIsAsked() throws {
        let names = try program(["command": ["aws"], "format": "kubernetes"]).environment.map(\.name)
        #expect(names == ["KUBERNETES_EXEC_INFO"])
        let own: FixtureNode = [
            "command": ["aws"], "format": "kubernetes", "environment": ["KUBERNETES_EXEC_INFO": "x"],
        ]
        #expect(try program(own).environment.map(\.value) == [Secret("x")])
    }

    private static let outputs: [(String, String, Duration?)] = [
        (#"{"token":"abc","expires_at":"2026-03-01T10:30:00Z"}"#, "abc", .seconds(3600)),
        (#"{"token":"abc","expires_at":1772361000}"#, "abc", .seconds(3600)),
        (#"{"access_token":"abc","expires_in":"90"}"#, "abc", .seconds(90)),
        (#"{"token":"abc","expires_at":null,"expires_in":90}"#, "abc", .seconds(90)),
        (#"{"token":"abc"}"#, "abc", nil),
        // No good token is lost for what stands beside it.
        (#"{"token":"abc","expires_at":"soon"}"#, "abc", nil), (#"{"token":"abc","expires_in":0}"#, "abc", nil),
        (#"{"token":"abc","expires_at":"soon","expires_in":90}"#, "abc", .seconds(90)),
        (#"{"token":"abc","id":1e999,"name":"\ud83d","expires_in":90}"#, "abc", .seconds(90)),
    ]

    @Test(arguments: outputs)
    func jsonIsRead(_ output: String, _ access: String, _ lifetime: Duration?) throws {
        let token = try token(output).get()
        #expect(token.access == Secret(access))
        #expect(token.lifetime == lifetime)
    }

    @Test func anExecCredentialIsRead() throws {
        let output = """
            {"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1",
             "status":{"token":"k8s-aws-v1.abc","expirationTimestamp":"2026-03-01T09:44:00Z"}}
            """
        let token = try token(output, ["command": ["aws"], "format": "kubernetes"]).get()
        #expect(token.access == Secret("k8s-aws-v1.abc"))
        #expect(token.lifetime == .seconds(840))
        let failure = try #require(
            self.token(#"{"status":{"token":"x"}}"#, ["command": ["a"], "format": "kubernetes"]).failure
        )
        #expect(failure.problem.detail.contains("not an ExecCredential"))
    }

    @Test func anOddEndIsThatOfTheConfigurationAndSaidOnce() throws {
        let block: FixtureNode = ["command": ["aws"], "format": "kubernetes", "default_ttl": "5m"]
        let output = #"{"kind":"ExecCredential","status":{"token":"abc","expirationTimestamp":"soon"}}"#
        var attempt = GrantAttempt.sample(holding: nil, at: now)
        attempt.answers = 1
        let reply = TokenReply(output: Array(output.utf8))
        let grant = try grant("exec", block)
        guard case .token(let token) = grant.interpret(reply, in: &attempt) else { throw WrongKind() }
        #expect(token.lifetime == .seconds(300) && attempt.remarks.count == 1)
    }

    @Test func textIsTheTokenAndNothingElse() throws {
        let block: FixtureNode = ["command": ["pass"], "format": "text", "default_ttl": "5m"]
        let token = try token("  abc\r\n", block).get()
        #expect(token.access == Secret("abc"))
        #expect(token.lifetime == .seconds(300))
        #expect(try self.token("first\nsecond", block).failure?.class == .transient(retryAfter: nil))
    }

    @Test(arguments: [#"{"token":7}"#, #"{"token":"a","token":"b"}"#, #"{"token":"a\ud83d"}"#, "[]"])
    func whatIsNoTokenIsTriedAgain(_ output: String) throws {
        let failure = try #require(token(output).failure)
        #expect(failure.class == .transient(retryAfter: nil))
        #expect(failure.problem.detail.hasPrefix("print-token printed no usable token: "))
    }

    @Test func theTokenGoesWhereItIsApplied() throws {
        let block: FixtureNode = ["command": ["pass"], "apply": ["header": "X-Api-Key"]]
        let token = TokenSet(access: Secret("abc"), obtainedAt: now.wall)
        #expect(try grant("exec", block).injection(of: token).wire == ["X-Api-Key: abc"])
        #expect(try grant("exec", Self.block).injection(of: token).wire == ["Authorization: Bearer abc"])
    }

    @Test func itKeepsThePromisesOfAGrant() throws {
        for format in ["json", "text", "kubernetes"] {
            let block: FixtureNode = [
                "command": ["print-token"], "format": "\(format)", "environment": ["KEY": "canary-key"],
            ]
            let output =
                switch format {
                case "json": #"{"token":"new","expires_in":60}"#
                case "text": "new\n"
                default: #"{"kind":"ExecCredential","status":{"token":"new"}}"#
                }
            try TokenGrantConformance(
                grant("exec", block),
                success: TokenReply(output: Array(output.utf8)),
                answersErrorsInOAuth: false
            ).check()
        }
        try TokenGrantConformance.checkIdentitiesDiffer([
            grant("exec", Self.block), grant("exec", ["command": ["print-token", "--for reports"]]),
            grant("exec", ["command": ["print-token", "--for", "reports"], "environment": ["A": "b"]]),
            grant("exec", ["command": ["print-token", "--for", "reports"], "format": "text"]),
            grant("exec", ["command": ["print-token", "--for", "reports"], "apply": ["query": "key"]]),
        ])
    }
}
