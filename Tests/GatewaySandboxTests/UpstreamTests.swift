import GatewayHTTP
import GatewaySandbox
import Testing

@Suite(.timeLimit(.minutes(5)))
struct UpstreamTests {
    @Test func theTokensOfAllAuthoritiesAreAccepted() async throws {
        try await Harness.run { harness async throws in
            let tokens = [
                try await harness.boxToken().string("access_token"),
                try await harness.oauthToken().string("access_token"),
                harness.environment("DUKE_ACCESS_TOKEN"),
                harness.environment("BOX_DEVELOPER_TOKEN"),
                harness.environment("UPSTREAM_TOKEN"),
            ]
            for token in tokens {
                let answer = try await harness.echo(harness.bearer(token))
                #expect(answer.status == 200)
                #expect(answer["authorization"]?["accepted"] == .bool(true))
                #expect(!answer.text.contains(token ?? "(none)"))
            }
        }
    }

    @Test func theBasicUserAndTheAPIKeyAreAccepted() async throws {
        try await Harness.run { harness async throws in
            let good = "Basic c2FuZGJveC11c2VyOnNhbmRib3gtcGFzc3dvcmQ="
            #expect(try await harness.echo([("Authorization", good)]).status == 200)
            let refused = try await harness.echo([("Authorization", "Basic YTpi")])
            #expect(refused.status == 401)
            #expect(refused.field("www-authenticate")?.hasPrefix("Basic realm=") == true)
            #expect(try await harness.echo([("X-Api-Key", harness.environment("UPSTREAM_API_KEY"))]).status == 200)
            #expect(try await harness.echo([("X-Api-Key", "wrong")]).status == 401)
        }
    }

    @Test func withoutACredentialTheChallengeNamesNoError() async throws {
        try await Harness.run { harness async throws in
            let answer = try await harness.echo([])
            #expect(answer.status == 401)
            #expect(answer.field("www-authenticate") == #"Bearer realm="sandbox""#)
        }
    }

    @Test func twoAuthorizationFieldsAreNotAccepted() async throws {
        try await Harness.run { harness async throws in
            let token = harness.bearer(harness.environment("UPSTREAM_TOKEN"))
            #expect(try await harness.echo(token + token).status == 401)
        }
    }

    @Test func echoSaysWhatArrived() async throws {
        try await Harness.run { harness async throws in
            let answer = try await harness.send(
                .put,
                harness.sandbox.addresses.upstream + "/public/echo/a%2Fb?x=1&y=%20",
                [("X-Mixed-Case", "v")],
                body: .text("abc")
            )
            #expect(answer.string("method") == "PUT")
            #expect(answer.string("path") == "/public/echo/a%2Fb")
            #expect(answer.string("query") == "x=1&y=%20")
            #expect(answer["body_bytes"] == .number(3))
            #expect(
                answer.string("body_sha256") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
            )
            #expect(answer.text.contains(#"["X-Mixed-Case","v"]"#))
        }
    }

    @Test func theJournalShowsWhatArrivedAndNoSecret() async throws {
        try await Harness.run { harness async throws in
            let token = try await harness.boxToken().string("access_token") ?? ""
            _ = try await harness.echo(harness.bearer(token))
            _ = try await harness.echo(harness.bearer("nonsense"))
            let journal = try await harness.send(.get, harness.sandbox.addresses.upstream + "/_/requests")
            guard case .array(let entries)? = journal["requests"] else {
                Issue.record("no list in \(journal.text)")
                return
            }
            #expect(entries.map { $0["status"] } == [.number(200), .number(401)])
            #expect(entries.first?["authorization"]?["subject"]?.string == "enterprise:1000001")
            #expect(entries.last?["authorization"]?["reason"]?.string == "unknown")
            #expect(!journal.text.contains(token))
        }
    }

    @Test func aLargeBodyIsReadToItsEnd() async throws {
        try await Harness.run { harness async throws in
            let answer = try await harness.send(
                .post,
                harness.sandbox.addresses.upstream + "/public/sink",
                body: .pieces(count: 256, size: 64 * 1024)
            )
            #expect(answer["size"] == .number(16_777_216))
            #expect(try await harness.count(of: "uploads.bytes") == 16_777_216)
        }
    }

    @Test(arguments: ["0", "1", "65536", "16777217", "16777217?chunked=1"])
    func asManyBytesComeAsWereAskedFor(size: String) async throws {
        try await Harness.run { harness async throws in
            let count = try await harness.count(harness.sandbox.addresses.upstream + "/public/bytes/\(size)")
            #expect(String(count) == size.split(separator: "?").first.map(String.init))
        }
    }

    @Test func anAnswerThatIsCutEndsInAnError() async throws {
        try await Harness.run { harness async throws in
            let url = harness.sandbox.addresses.upstream + "/public/bytes/1000000?cut=500000"
            await #expect(throws: (any Error).self) { try await harness.count(url) }
        }
    }

    @Test func theJournalSaysWhenNothingWasFound() async throws {
        try await Harness.run { harness async throws in
            _ = try await harness.send(.get, harness.sandbox.addresses.box + "/nowhere?x=1")
            let journal = try await harness.send(.get, harness.sandbox.addresses.upstream + "/_/requests?origin=box")
            #expect(journal.text.contains(#""target":"/nowhere?x=1""#))
            #expect(journal.text.contains(#""status":404"#))
        }
    }

    @Test func eventsStatusesAndPausesAreServed() async throws {
        try await Harness.run { harness async throws in
            let base = harness.sandbox.addresses.upstream + "/public"
            let events = try await harness.send(.get, base + "/sse?events=3&interval_ms=0")
            #expect(events.field("content-type") == "text/event-stream")
            #expect(events.text.split(separator: "\n\n").count == 3)
            #expect(try await harness.send(.get, base + "/status/418").status == 418)
            #expect(try await harness.send(.get, base + "/status/204").status == 204)
            #expect(try await harness.send(.get, base + "/status/99").status == 400)
            #expect(try await harness.send(.get, base + "/slow?ms=1")["slept_ms"] == .number(1))
            #expect(try await harness.send(.head, base + "/echo").body.isEmpty)
        }
    }

    @Test func aClientThatWaitsForContinueIsToldToGoOn() async throws {
        try await Harness.run { harness async throws in
            let answer = try await harness.send(
                .post,
                harness.sandbox.addresses.upstream + "/public/sink",
                [("Expect", "100-continue")],
                body: .text("abc")
            )
            #expect(answer["size"] == .number(3))
        }
    }
}
