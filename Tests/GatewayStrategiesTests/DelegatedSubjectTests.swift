import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Subjects that requests name", .timeLimit(.minutes(5)))
struct DelegatedSubjectTests {
    private static func block(_ id: FixtureNode, _ more: [(String, FixtureNode)] = []) -> FixtureNode {
        .mapping(
            [
                ("url", "https://tokens.example.com/{{unique_id}}/token?id={{unique_id}}"), ("unique_id", id),
                ("headers", ["X-User": "id={{unique_id}}"]), ("body", ["json": ["user": "{{unique_id}}"]]),
            ] + more
        )
    }

    private func subjects(_ id: FixtureNode) throws -> any SubjectGrants {
        guard case .tokens(let grants as any SubjectGrants) = try decode("delegated", Self.block(id)).behavior else {
            throw WrongKind()
        }
        return grants
    }

    @Test func aRequestIsMadeForTheSubject() throws {
        let grants = try subjects(["header": "X-Box-User", "regex": "[0-9a-z@+.]{1,20}"])
        let grant = grants.grant(for: "a+b@c")
        let request = try request(of: grant.firstStep(holding: nil))
        #expect(
            request.wire == """
                POST https://tokens.example.com/a%2Bb%40c/token?id=a%2Bb%40c
                X-User: id=a+b@c
                """
        )
        #expect(request.body == .content(type: "application/json", Secret(#"{"user":"a+b@c"}"#)))
        #expect(grant.identity.subject == "a+b@c")
        #expect((grants.field, grants.limit, grants.isRenewable) == ("X-Box-User", 100, true))
    }

    @Test func theGrantsKeepThePromisesOfAGrantAndDiffer() throws {
        let listed = try subjects(["header": "X-Box-User", "allow": ["1", "2"]])
        let other = try subjects(["header": "X-Other", "allow": ["1", "2"]])
        try TokenGrantConformance(
            listed.grant(for: "1"),
            success: TokenReply(200, #"{"access_token":"new","expires_in":60}"#),
            answersErrorsInOAuth: false
        ).check()
        try TokenGrantConformance.checkIdentitiesDiffer([listed.grant(for: "1"), listed.grant(for: "2")])
        #expect(listed.identity != other.identity)
    }

    @Test func theListDecides() throws {
        let grants = try subjects(["header": "X-Box-User", "allow": ["11446498", "b@c"], "at_most": 7])
        #expect(["11446498", "b@c"].allSatisfy(grants.allows))
        #expect(!["1144649", "114464981", "B@C", ""].contains(where: grants.allows))
        #expect(grants.limit == 7)
    }

    @Test func thePatternMustFitTheWholeOfIt() throws {
        let grants = try subjects(["header": "X-Box-User", "regex": "[0-9]{1,4}|app-(?:a|b)"])
        #expect(["1", "1234", "app-a"].allSatisfy(grants.allows))
        #expect(!["", "12345", "app-c", "app-ab", "1a", "xapp-a"].contains(where: grants.allows))
    }

    @Test(arguments: [400, 403, 404, 409, 410, 422])
    func aSubjectThatTheServerDoesNotKnowIsNobodysMistakeButTheCallers(_ status: Int) throws {
        let grant = try subjects(["header": "X-Box-User", "allow": ["1"]]).grant(for: "1")
        let failure = try #require(grant.interpret(TokenReply(status, "canary"), holding: nil, at: now).failure)
        #expect(failure.class == .transient(retryAfter: .seconds(60)))
        #expect(failure.problem.kind == .routeForbidden)
        #expect(!failure.problem.detail.contains("canary"))
    }

    @Test func aTokenServerThatDoesNotKnowUsIsAMistakeOfTheConfiguration() throws {
        let grant = try subjects(["header": "X-Box-User", "allow": ["1"]]).grant(for: "1")
        let failure = try #require(grant.interpret(TokenReply(401, ""), holding: nil, at: now).failure)
        #expect(failure.class == .terminal)
        #expect(failure.problem.kind == .credentialMisconfigured)
    }

    private static let mistakes: [(FixtureNode, [(String, FixtureNode)], String)] = [
        (["allow": ["1"]], [], "unique_id: missing key \"header\""),
        (
            ["header": "X-Box-User"], [],
            "unique_id: needs exactly one of allow (a list) and regex, for the subjects that requests may name"
        ),
        (
            ["header": "X-Box-User", "allow": ["1"], "regex": "1"], [],
            "unique_id: needs exactly one of allow (a list) and regex, for the subjects that requests may name"
        ),
        (["header": "X-Box-User", "allow": []], [], "unique_id.allow: the list is empty"),
        (["header": "X-Box-User", "regex": "("], [], "unique_id.regex: a \"(\" is never closed"),
        (["header": "X-Box-User", "regex": "a)|(?:b"], [], "unique_id.regex: a \")\" without \"(\""),
        (
            ["header": "X-Box-User", "allow": ["a/b"]], [],
            "unique_id.allow: \"a/b\" is not a valid subject: at most 128 letters, digits and -._~@:+=, beginning "
                + "with a letter or a digit"
        ),
        (
            ["header": "Authorization", "allow": ["1"]], [],
            "unique_id.header: Authorization has another meaning; choose a field of your own, such as X-Box-User"
        ),
        (
            ["header": "Host", "allow": ["1"]], [],
            "unique_id.header: this field belongs to the connection, not to a credential"
        ),
        (
            ["header": "X_User", "allow": ["1"]], [],
            "unique_id.header: use a hyphen instead of \"_\": some servers confuse the two"
        ),
        (["header": "X-Box-User", "allow": ["1"], "at_most": 0], [], "unique_id.at_most: must be between 1 and 1000"),
        (
            ["header": "X-Box-User", "allow": ["1"]], [("initial_token", "abc")],
            "initial_token: is the token of one subject, and requests may name several (unique_id)"
        ),
        (
            ["header": "X-Token", "allow": ["1"]], [("apply", ["header": "x-token"])],
            "unique_id: X-Token is where the token goes (apply)"
        ),
    ]

    @Test(arguments: mistakes.indices)
    func mistakesAreExplained(_ index: Int) throws {
        let (id, more, problem) = Self.mistakes[index]
        #expect(try problems("delegated", Self.block(id, more)) == [problem])
    }

    @Test func theHostCannotDependOnTheRequest() throws {
        let block: FixtureNode = [
            "url": "https://{{unique_id}}.example.com/token", "unique_id": ["header": "X-Box-User", "allow": ["1"]],
        ]
        #expect(
            try problems("delegated", block)
                == ["url: scheme, host and port must not depend on what is filled in later"]
        )
    }
}
