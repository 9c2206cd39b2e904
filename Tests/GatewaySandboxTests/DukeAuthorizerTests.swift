import GatewayHTTP
import GatewaySandbox
import Testing

@Suite(.timeLimit(.minutes(5)))
struct DukeAuthorizerTests {
    private func pair(_ answer: Answer) -> (access: String, session: String) {
        (answer["data"]?["access_token"]?.string ?? "", answer["data"]?["session_token"]?.string ?? "")
    }

    @Test(arguments: ["dukemobile/ios", "dukemobile"])
    func bothTokensRotateAndTheOldPairIsDead(shape: String) async throws {
        try await Harness.run { harness async throws in
            let (access, session) = (
                harness.environment("DUKE_ACCESS_TOKEN"), harness.environment("DUKE_SESSION_TOKEN")
            )
            let me = harness.sandbox.addresses.duke + "/api/me"
            #expect(try await harness.send(.get, me, harness.bearer(access)).string("netid") == "ds123")
            let renewed = pair(try await harness.dukeRefresh(access, session, shape: shape))
            #expect(renewed.access != access)
            #expect(renewed.session != session)
            #expect(try await harness.send(.get, me, harness.bearer(renewed.access)).status == 200)
            #expect(try await harness.send(.get, me, harness.bearer(access)).status == 401)
            #expect(try await harness.dukeRefresh(access, session, shape: shape).status == 400)
            #expect(try await harness.dukeRefresh(access, renewed.session, shape: shape).status == 400)
            #expect(try await harness.dukeRefresh(renewed.access, renewed.session, shape: shape).status == 200)
            #expect(try await harness.count(of: "double_spends.duke") == 1)
        }
    }

    @Test func anExpiredAccessTokenStillRefreshes() async throws {
        try await Harness.run { harness async throws in
            try await harness.steer(harness.sandbox.addresses.duke, #"{"age_tokens_s": 4000}"#)
            let answer = try await harness.dukeRefresh(
                harness.environment("DUKE_ACCESS_TOKEN"),
                harness.environment("DUKE_SESSION_TOKEN")
            )
            #expect(answer.status == 200)
        }
    }

    @Test func bothFieldsAreNeeded() async throws {
        try await Harness.run { harness async throws in
            let answer = try await harness.send(
                .post,
                harness.sandbox.addresses.duke + "/dukemobile/ios/refresh",
                [("X-Access-Token", harness.environment("DUKE_ACCESS_TOKEN"))]
            )
            #expect(answer.status == 400)
        }
    }

    @Test(arguments: [400, 403, 500])
    func aSwitchMakesTheRefreshFailAndKeepsThePair(status: Int) async throws {
        try await Harness.run { harness async throws in
            try await harness.steer(harness.sandbox.addresses.duke, #"{"token_status": \#(status), "token_next": 1}"#)
            let (access, session) = (
                harness.environment("DUKE_ACCESS_TOKEN"), harness.environment("DUKE_SESSION_TOKEN")
            )
            #expect(try await harness.dukeRefresh(access, session).status == status)
            #expect(try await harness.dukeRefresh(access, session).status == 200)
        }
    }

    @Test func theAccessTokenIsAWebTokenThatSaysWhenItEnds() async throws {
        try await Harness.run { harness async throws in
            let parts = harness.environment("DUKE_ACCESS_TOKEN").split(separator: ".").map(String.init)
            #expect(parts.count == 3)
            let claims = decodeBase64URL(parts[1])
            guard case .number(let issued)? = claims?["iat"], case .number(let expiry)? = claims?["exp"] else {
                Issue.record("no iat or exp in \(parts[1])")
                return
            }
            #expect(expiry.value - issued.value == 3600)
        }
    }

    @Test func signingInLeadsToAPageThatCarriesAWorkingPair() async throws {
        try await Harness.run { harness async throws in
            let base = harness.sandbox.addresses.duke
            #expect(try await harness.send(.get, base + "/wearduke/ios/login").text.contains("<form>"))
            let redirect = try await harness.send(.get, base + "/wearduke/login?netid=abc12")
            let query = (redirect.field("location") ?? "").split(separator: "?").last?.split(separator: "&") ?? []
            let values = query.compactMap { $0.split(separator: "=").last.map(String.init) }
            #expect(values.count == 2)
            #expect(try await harness.dukeRefresh(values[0], values[1], shape: "wearduke").status == 200)
            #expect(try await harness.dukeRefresh(values[0], values[1], shape: "nobody").status == 404)
        }
    }

    @Test func revocationEndsThePair() async throws {
        try await Harness.run { harness async throws in
            let (access, session) = (
                harness.environment("DUKE_ACCESS_TOKEN"), harness.environment("DUKE_SESSION_TOKEN")
            )
            let answer = try await harness.send(
                .post,
                harness.sandbox.addresses.duke + "/dukemobile/ios/revoke",
                [("X-Access-Token", access), ("X-Session-Token", session)]
            )
            #expect(answer.status == 200)
            #expect(try await harness.dukeRefresh(access, session).status == 400)
        }
    }

    private func decodeBase64URL(_ text: String) -> JSONValue? {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        var (bits, count, bytes) = (0, 0, [UInt8]())
        for byte in text.utf8 {
            guard let value = alphabet.firstIndex(of: byte) else { return nil }
            bits = bits << 6 | value
            count += 6
            if count >= 8 {
                count -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> count))
            }
        }
        return JSONValue(bytes)
    }
}
