import GatewayHTTP
import GatewaySandbox
import Testing

@Suite(.timeLimit(.minutes(5)))
struct SwitchesTests {
    @Test func tokensLiveAsLongAsTheSwitchSays() async throws {
        try await Harness.run { harness async throws in
            let box = harness.sandbox.addresses.box
            try await harness.steer(box, #"{"token_lifetime": 5}"#)
            let answer = try await harness.boxToken()
            #expect(answer["expires_in"] == .number(5))
            #expect(try await harness.me(answer.string("access_token")).status == 200)
            try await harness.steer(box, #"{"age_tokens_s": 5}"#)
            #expect(try await harness.me(answer.string("access_token")).status == 401)
        }
    }

    @Test func aTokenEndpointFailsAsOftenAsItIsTold() async throws {
        try await Harness.run { harness async throws in
            let box = harness.sandbox.addresses.box
            try await harness.steer(box, #"{"token_status": 503, "token_next": 2, "token_retry_after": "3"}"#)
            for _ in 1...2 {
                let answer = try await harness.boxToken()
                #expect(answer.status == 503)
                #expect(answer.field("retry-after") == "3")
                #expect(answer.string("error") == "temporarily_unavailable")
            }
            #expect(try await harness.boxToken().status == 200)
            #expect(try await harness.count(of: "tokens_issued.box") == 1)
        }
    }

    @Test func aTokenEndpointAnswersAnythingItIsGiven() async throws {
        try await Harness.run { harness async throws in
            let oauth = harness.sandbox.addresses.oauth
            try await harness.steer(oauth, #"{"token_body": "<html>", "token_content_type": "text/html"}"#)
            let answer = try await harness.oauthToken()
            #expect(answer.status == 200)
            #expect(answer.text == "<html>")
            #expect(answer.field("content-type") == "text/html")
        }
    }

    @Test func membersOfTheAnswerAreReplacedAndLeftOut() async throws {
        try await Harness.run { harness async throws in
            try await harness.steer(
                harness.sandbox.addresses.box,
                #"{"token_set": {"expires_in": "soon", "restricted_to": null}, "token_omit": ["token_type"]}"#
            )
            let answer = try await harness.boxToken()
            #expect(answer["expires_in"] == .string("soon"))
            #expect(answer["restricted_to"] == .null)
            #expect(answer["token_type"] == nil)
            #expect(answer.string("access_token") != nil)
        }
    }

    @Test func aConnectionThatDropsAfterTheGrantHasSpentTheToken() async throws {
        try await Harness.run { harness async throws in
            try await harness.steer(harness.sandbox.addresses.box, #"{"drop_after_commit": 1}"#)
            let token = harness.environment("BOX_REFRESH_TOKEN")
            await #expect(throws: (any Error).self) { try await harness.boxRefresh(token) }
            #expect(try await harness.boxRefresh(token).string("error") == "invalid_grant")
            #expect(try await harness.count(of: "tokens_issued.box") == 1)
        }
    }

    @Test func aConnectionThatDropsBeforeTheGrantHasSpentNothing() async throws {
        try await Harness.run { harness async throws in
            try await harness.steer(harness.sandbox.addresses.box, #"{"drop_before_commit": 1}"#)
            let token = harness.environment("BOX_REFRESH_TOKEN")
            await #expect(throws: (any Error).self) { try await harness.boxRefresh(token) }
            #expect(try await harness.boxRefresh(token).status == 200)
        }
    }

    @Test func tokenCallsUnderWayTogetherAreCounted() async throws {
        try await Harness.run { harness async throws in
            try await harness.steer(harness.sandbox.addresses.box, #"{"token_delay_ms": 2000}"#)
            async let first = harness.boxToken()
            async let second = harness.boxToken()
            let deadline = ContinuousClock.now + .seconds(20)
            while try await harness.count(of: "token_calls_under_way") != 2, ContinuousClock.now < deadline {
                await Task.yield()
            }
            #expect(try await harness.count(of: "token_calls_under_way") == 2)
            let statuses = try await [first.status, second.status]
            #expect(statuses == [200, 200])
            #expect(try await harness.count(of: "token_calls_at_once") == 2)
            #expect(try await harness.count(of: "token_calls_under_way") == 0)
        }
    }

    @Test func goodTokensAreRejectedAsOftenAsTheSwitchSays() async throws {
        try await Harness.run { harness async throws in
            let upstream = harness.sandbox.addresses.upstream
            let token = harness.bearer(harness.environment("UPSTREAM_TOKEN"))
            try await harness.steer(upstream, #"{"reject_next": 2}"#)
            #expect(try await harness.echo(harness.bearer("bad")).status == 401)
            for expected in [401, 401, 200] { #expect(try await harness.echo(token).status == expected) }
        }
    }

    @Test func theAPIFailsUntilItIsToldToStop() async throws {
        try await Harness.run { harness async throws in
            let upstream = harness.sandbox.addresses.upstream
            let token = harness.bearer(harness.environment("UPSTREAM_TOKEN"))
            try await harness.steer(upstream, #"{"api_status": 403}"#)
            let refused = try await harness.echo(token)
            #expect(refused.status == 403)
            #expect(refused.field("www-authenticate")?.contains("insufficient_scope") == true)
            try await harness.steer(upstream, #"{"api_status": null}"#)
            #expect(try await harness.echo(token).status == 200)
        }
    }

    @Test func anUpstreamDropsAsManyRequestsAsItIsTold() async throws {
        try await Harness.run { harness async throws in
            let upstream = harness.sandbox.addresses.upstream
            try await harness.steer(upstream, #"{"drop_next": 1}"#)
            let sink = upstream + "/public/sink"
            await #expect(throws: (any Error).self) { try await harness.send(.post, sink, body: .text("abc")) }
            #expect(try await harness.send(.post, sink, body: .text("abc")).status == 200)
            #expect(try await harness.count(of: "uploads.count") == 1)
        }
    }

    @Test func oneOriginSteersAnother() async throws {
        try await Harness.run { harness async throws in
            try await harness.steer(harness.sandbox.addresses.upstream, #"{"origin": "box", "token_status": 500}"#)
            #expect(try await harness.boxToken().status == 500)
            #expect(try await harness.oauthToken().status == 200)
        }
    }

    @Test func revokingAtTheUpstreamEndsTheTokensOfEveryAuthority() async throws {
        try await Harness.run { harness async throws in
            let token = try await harness.boxToken().string("access_token")
            try await harness.steer(harness.sandbox.addresses.upstream, #"{"revoke_access": true}"#)
            #expect(try await harness.echo(harness.bearer(token)).status == 401)
            #expect(try await harness.echo(harness.bearer(harness.environment("DUKE_ACCESS_TOKEN"))).status == 401)
            #expect(try await harness.boxRefresh(harness.environment("BOX_REFRESH_TOKEN")).status == 200)
        }
    }

    @Test(arguments: [
        #"{"token_lifetme": 5}"#, #"{"token_lifetime": "5"}"#, #"{"token_delay_ms": -1}"#, #"{"origin": "moon"}"#,
        #"[]"#, "nonsense",
    ])
    func aControlCallThatIsNotUnderstoodChangesNothing(call: String) async throws {
        try await Harness.run { harness async throws in
            let answer = try await harness.steer(harness.sandbox.addresses.box, call)
            #expect(answer.status == 400)
            #expect(answer.string("error")?.isEmpty == false)
        }
    }

    @Test func aResetRevivesTheSeedsAndForgetsTheRest() async throws {
        try await Harness.run { harness async throws in
            let box = harness.sandbox.addresses.box
            let token = try await harness.boxToken().string("access_token")
            _ = try await harness.boxRefresh(harness.environment("BOX_REFRESH_TOKEN"))
            try await harness.steer(box, #"{"token_status": 500}"#)
            _ = try await harness.send(.post, box + "/_sandbox/reset")
            #expect(try await harness.count(of: "token_calls_total") == 0)
            #expect(try await harness.me(token).status == 401)
            #expect(try await harness.boxRefresh(harness.environment("BOX_REFRESH_TOKEN")).status == 200)
        }
    }
}
