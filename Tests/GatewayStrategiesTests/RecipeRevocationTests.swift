import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayStrategies

@Suite("Revocation by a recipe", .timeLimit(.minutes(5)))
struct RecipeRevocationTests {
    private static func recipe(revoke: FixtureNode?) -> FixtureNode {
        .mapping(
            [
                ("secrets", ["admin": "s3c"]), ("keep", ["device"]), ("expiry", "none"),
                (
                    "acquire",
                    [["url": "https://app.example.com/login", "outputs": ["token": "/t", "device": "/d"]]]
                ),
            ] + (revoke.map { [("revoke", $0)] } ?? [])
        )
    }

    /// A page with a CSRF token, then the form.
    private static let logout = recipe(
        revoke: [
            [
                "url": "https://app.example.com/logout", "headers": ["Cookie": "sid={{token}}"],
                "outputs": ["csrf": ["regex": "value=\"([^\"]+)\""]],
            ],
            [
                "method": "DELETE", "url": "https://app.example.com/sessions/{{device}}",
                "headers": ["X-Csrf": "{{csrf}}", "X-Admin": "{{admin}}"], "status": ["success": ["204", "302"]],
            ],
        ]
    )
    private let held = TokenSet(access: Secret("s1"), extras: ["device": Secret("d/7")], obtainedAt: now.wall)

    private func play(
        _ block: FixtureNode,
        _ replies: TokenReply...
    ) throws -> (requests: [String], end: RevocationAnswer) {
        let grant = try grant("recipe", block)
        var attempt = GrantAttempt(holding: held, at: now, nonce: "")
        guard case .request(var next) = grant.revocation(in: attempt) else { throw WrongKind() }
        var requests: [String] = []
        for reply in replies {
            requests.append(next.wire)
            attempt.answers += 1
            let answer = grant.interpretRevocation(reply, in: &attempt)
            guard case .next(let request) = answer else { return (requests, answer) }
            next = request
        }
        Issue.record("goes on with \(next.wire)")
        throw WrongKind()
    }

    private let page = TokenReply(200, "<input name=\"csrf\" value=\"c9\">")

    @Test func stepsBuildOnEachOther() throws {
        let (requests, end) = try play(Self.logout, page, TokenReply(302, ""))
        #expect(
            requests == [
                "GET https://app.example.com/logout\nCookie: sid=s1",
                "DELETE https://app.example.com/sessions/d%2F7\nX-Csrf: c9\nX-Admin: s3c",
            ]
        )
        #expect(end == .revoked)
    }

    private static let failures: [(TokenReply?, TokenReply?, ProblemKind, String)] = [
        (TokenReply(200, "<p>Who are you?"), nil, .tokenTemporarilyUnavailable, "not as the recipe expects"),
        (TokenReply(403, "canary"), nil, .credentialMisconfigured, "(step 1 of \"revoke\") refused to revoke"),
        (nil, TokenReply(200, ""), .credentialMisconfigured, "(step 2 of \"revoke\") refused to revoke"),
        (nil, TokenReply(503, ""), .tokenTemporarilyUnavailable, "does not revoke tokens at the moment (status 503)"),
    ]

    @Test(arguments: failures)
    func aStepThatFailsIsNamed(
        _ first: TokenReply?,
        _ second: TokenReply?,
        _ kind: ProblemKind,
        _ words: String
    ) throws {
        let end = try second.map { try play(Self.logout, page, $0).end } ?? play(Self.logout, first ?? page).end
        guard case .failure(let problem) = end else { throw WrongKind() }
        #expect(problem.kind == kind)
        #expect(problem.detail.contains(words))
        #expect(!problem.detail.contains("canary"))
    }

    /// `invalid_grant` of a step that shows something else says nothing about the token.
    @Test func onlyAStepThatShowsTheTokenCanFindItUnknown() throws {
        let unknown = TokenReply(400, #"{"error":"invalid_grant"}"#)
        #expect(try play(Self.logout, unknown).end == .revoked)
        guard case .failure = try play(Self.logout, page, unknown).end else { throw WrongKind() }
    }

    @Test func withoutStepsItSaysSo() throws {
        let attempt = GrantAttempt.sample(holding: held, at: now)
        #expect(
            try grant("recipe", Self.recipe(revoke: nil)).revocation(in: attempt)
                == .impossible("The recipe has no \"revoke\"; add it.")
        )
        let bare = GrantAttempt.sample(holding: TokenSet(access: Secret("s1"), obtainedAt: now.wall), at: now)
        let needsDevice = Self.recipe(revoke: [["url": "https://app.example.com/{{device}}"]])
        guard case .impossible = try grant("recipe", needsDevice).revocation(in: bare) else { throw WrongKind() }
    }

    @Test(arguments: ["token", "renewal", "device", "admin"])
    func whatIsRevokedKeepsItsName(_ name: String) throws {
        let block = Self.recipe(revoke: [["url": "https://app.example.com/out", "outputs": ["\(name)": "/x"]]])
        #expect(
            try problems("recipe", block) == [
                "revoke[0].outputs.\(name): \"\(name)\" is already the name of a value, a secret or the current token"
            ]
        )
    }
}
