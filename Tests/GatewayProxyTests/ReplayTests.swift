import Foundation
import GatewayHTTP
import GatewayTokens
import Synchronization
import Testing

@testable import GatewayProxy

/// What Box sends: 401, empty, and a challenge that names the reason.
private let rejection =
    "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"Service\", error=\"invalid_token\"\r\n"
    + "Content-Length: 0\r\n\r\n"

@Suite(.timeLimit(.minutes(5)))
struct ReplayTests {
    /// Accepts only the token of generation 2.
    private func picky(_ answer: String = rejection) throws -> RawOrigin {
        try RawOrigin { connection, _, origin in
            while let message = connection.readMessage() {
                origin.record(message.head + message.body)
                let isFresh = message.head.contains("token-2")
                connection.send(isFresh ? "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" : answer)
            }
        }
    }

    @Test func aRejectedTokenIsRenewedOnceAndThePostArrivesWhole() async throws {
        let origin = try picky()
        let source = ScriptedSource()
        try await withProxy(origin, source: source) { proxy in
            let body = String(repeating: "x", count: 10_000)
            let answer = try proxy.exchange(
                "POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000\r\n\r\n" + body
            )
            #expect(answer.head.hasPrefix("HTTP/1.1 200"))
            #expect(origin.requests.count == 2)
            #expect(origin.requests[1].hasSuffix(body))
            #expect(source.state.withLock { $0.renewals } == 1)
            #expect(source.state.withLock { $0.events } == ["injected 1", "replayed 1", "injected 2"])
        }
    }

    /// What the client still sends must not put off the end of the inspection.
    @Test func aResponseIsNotHeldBackForAsLongAsItsClientUploads() async throws {
        let origin = try RawOrigin { connection, _, _ in
            guard connection.read(through: "\r\n\r\n") != nil else { throw RawError("no request") }
            connection.send(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"
            )
            while connection.read(count: 1) != nil {}
        }
        let policy = RenewalPolicy(rejectedWhen: RejectionRule(body: try TextPattern("password")))
        try await withProxy(origin, source: ScriptedSource(), policy: policy) { proxy in
            let client = try proxy.client()
            client.send("POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
            // Longer than the inspection may take.
            for _ in 1...25 {
                client.send("x")
                Thread.sleep(forTimeInterval: 0.1)
            }
            #expect(client.read(through: "\r\n\r\n")?.hasPrefix("HTTP/1.1 200") == true)
            #expect(client.read(through: "first") != nil)
            client.close()
        }
    }

    @Test func theRequestWaitsForTheRenewal() async throws {
        let origin = try picky()
        let source = ScriptedSource { $0.renewsAtOnce = false }
        try await withProxy(origin, source: source) { proxy in
            let client = try proxy.client()
            client.send("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try source.untilAsked()
            source.settle(.success(ScriptedSource.credential(2)))
            #expect(client.readMessage()?.body == "ok")
            client.close()
        }
    }

    @Test func aFailedRenewalPassesTheUpstreamsAnswerOn() async throws {
        let origin = try picky()
        let source = ScriptedSource { $0.renewsAtOnce = false }
        try await withProxy(origin, source: source) { proxy in
            let client = try proxy.client()
            client.send("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try source.untilAsked()
            source.settle(.failure(GatewayProblem(.reauthorizationRequired, "gone")))
            let answer = client.readMessage()
            #expect(answer?.head.hasPrefix("HTTP/1.1 401") == true)
            #expect(answer?.head.contains("Gateway-Token: rejected; not retried: reauthorization-required\r\n") == true)
            #expect(source.state.withLock { $0.events } == ["injected 1"])
            client.close()
        }
    }

    @Test func aBodyOverTheLimitIsNotReplayedAndSaysSo() async throws {
        let origin = try picky()
        let source = ScriptedSource()
        var limits = Limits()
        limits.replayBodyBytes = 1000
        try await withProxy(origin, source: source, limits: limits) { proxy in
            let answer = try proxy.exchange(
                "POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n"
                    + String(repeating: "x", count: 1001)
            )
            #expect(answer.head.hasPrefix("HTTP/1.1 401"))
            #expect(answer.head.contains("Gateway-Token: generation=1; retried=0; reason=\"request body not held\""))
            #expect(source.state.withLock { $0.renewals } == 1)
        }
    }

    @Test func aSecondRejectionIsPassedOnWithoutALoop() async throws {
        let origin = try RawOrigin.answering(rejection)
        let source = ScriptedSource()
        try await withProxy(origin, source: source) { proxy in
            let answer = try proxy.exchange("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(answer.head.hasPrefix("HTTP/1.1 401"))
            #expect(answer.head.contains("Gateway-Token: generation=2; fresh; retried=1\r\n"))
            #expect(origin.requests.count == 2)
            #expect(source.state.withLock { $0.renewals } == 1)
        }
    }

    @Test(arguments: [
        "error=\"insufficient_scope\"", "error=invalid_request", "error = \"insufficient_scope\"",
        "Error\t=\tinvalid_request",
        #"realm="a\"b", error="insufficient_scope""#, #"realm="\\", error=insufficient_scope"#,
        #"realm="error=invalid_token", error="insufficient_scope""#, #"realm="a" error="insufficient_scope""#,
    ])
    func otherChallengesRenewNothing(_ challenge: String) async throws {
        let origin = try RawOrigin.answering(
            "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"error=invalid_token\", \(challenge)\r\n"
                + "Content-Length: 0\r\n\r\n"
        )
        let source = ScriptedSource()
        try await withProxy(origin, source: source) { proxy in
            try #expect(proxy.exchange("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n").head.hasPrefix("HTTP/1.1 401"))
            #expect(source.state.withLock { $0.renewals } == 0)
        }
    }

    @Test(arguments: [401, 403])
    func aMissingScopeIsToldToTheSourceAndForwarded(_ status: Int) async throws {
        let challenge = "Bearer error=\"insufficient_scope\", scope=\"a b\", resource_metadata=\"http://127.0.0.1:9/\""
        let origin = try RawOrigin.answering(
            "HTTP/1.1 \(status) No\r\nWWW-Authenticate: \(challenge)\r\nContent-Length: 0\r\n\r\n"
        )
        let source = ScriptedSource()
        try await withProxy(origin, source: source) { proxy in
            let answer = try proxy.exchange("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(answer.head.hasPrefix("HTTP/1.1 \(status)") && answer.head.contains(challenge))
            let (events, renewals) = source.state.withLock { ($0.events, $0.renewals) }
            #expect(events.contains { $0.hasPrefix("lacks a b 1 ") } && renewals == 0)
            #expect(origin.requests.count == 1)
        }
    }

    @Test func aColdCredentialIsWaitedForWithADeadline() async throws {
        let origin = try RawOrigin.answering()
        let source = ScriptedSource { $0.isCold = true }
        var limits = Limits()
        limits.credentialTimeout = .milliseconds(100)
        try await withProxy(origin, source: source, limits: limits) { proxy in
            let answer = try proxy.exchange("GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(answer.head.hasPrefix("HTTP/1.1 504"))
            #expect(answer.body.contains("token-endpoint-timeout"))
            #expect(origin.requests.isEmpty)
            #expect(source.state.withLock { $0.events } == ["cancelled", "withheld 0"])
        }
    }

    @Test func aPostOnAConnectionThatDiesIsNotSentTwiceButAGetIs() async throws {
        let origin = try RawOrigin { connection, number, origin in
            // The first connection answers once and dies under the next request.
            while let message = connection.readMessage() {
                origin.record(message.head)
                if number == 1, origin.requests.count == 2 { return connection.reset() }
                if message.head.hasPrefix("POST"), origin.requests.count > 3 { return connection.reset() }
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }
        }
        try await withProxy(origin) { proxy in
            let client = try proxy.client()
            client.send("GET /api/1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(client.readMessage()?.body == "ok")
            client.send("GET /api/2 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(client.readMessage()?.body == "ok")
            #expect(origin.requests.count == 3)
            client.send("POST /api/3 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx")
            #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 502") == true)
            #expect(origin.requests.count == 4)
            client.close()
        }
    }

    // MARK: Basic credentials on a challenge

    private static func basic(realm: String? = nil) -> ChallengeCredentialSource {
        let password = FixedCredentialSource(
            name: "reports",
            strategy: "basic",
            injection: .authorization(scheme: "Basic", Secret("YTpw")),
            generation: ChallengeCredentialSource.fullGeneration
        )
        return ChallengeCredentialSource(password, realm: realm)
    }

    /// Accepts only the password, and asks for it with this challenge.
    private func asking(_ challenge: String) throws -> RawOrigin {
        try RawOrigin { connection, _, origin in
            while let message = connection.readMessage() {
                origin.record(message.head + message.body)
                let isRight = message.head.contains("Authorization: Basic YTpw\r\n")
                connection.send(
                    isRight
                        ? "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
                        : "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: \(challenge)\r\nContent-Length: 0\r\n\r\n"
                )
            }
        }
    }

    private static let post =
        "POST /api HTTP/1.1\r\nHost: localhost\r\nAuthorization: own\r\nContent-Length: 4\r\n\r\nbody"

    @Test func aPasswordIsSentWhenItIsAskedForAndFromThenOn() async throws {
        let origin = try asking("Negotiate, Basic realm=\"reports\"")
        try await withProxy(origin, source: Self.basic(realm: "reports")) { proxy in
            let answer1 = try proxy.exchange(Self.post).head
            #expect(answer1.hasPrefix("HTTP/1.1 200"))
            #expect(origin.requests.count == 2)
            // Neither the password nor what the client itself sent.
            #expect(!origin.requests[0].contains("Authorization"))
            #expect(origin.requests[1].hasSuffix("body"))
            let answer2 = try proxy.exchange(Self.post).head
            #expect(answer2.hasPrefix("HTTP/1.1 200"))
            #expect(origin.requests.count == 3)
        }
    }

    @Test(arguments: ["Bearer realm=\"reports\"", "Basic realm=\"other\"", "Digest realm=\"reports\""])
    func aPasswordIsNotSentToAnotherChallenge(_ challenge: String) async throws {
        let origin = try asking(challenge)
        try await withProxy(origin, source: Self.basic(realm: "reports")) { proxy in
            for _ in 0..<2 {
                let answer3 = try proxy.exchange(Self.post).head
                #expect(answer3.hasPrefix("HTTP/1.1 401"))
            }
            #expect(origin.requests.allSatisfy { !$0.contains("Authorization") })
            #expect(origin.requests.count == 2)
        }
    }

    @Test func aWrongPasswordIsSentOnce() async throws {
        let origin = try RawOrigin { connection, _, origin in
            while let message = connection.readMessage() {
                origin.record(message.head)
                connection.send(
                    "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n"
                )
            }
        }
        try await withProxy(origin, source: Self.basic()) { proxy in
            let answer4 = try proxy.exchange(Self.post).head
            #expect(answer4.hasPrefix("HTTP/1.1 401"))
            #expect(origin.requests.count == 2)
            let answer5 = try proxy.exchange(Self.post).head
            #expect(answer5.hasPrefix("HTTP/1.1 401"))
            #expect(origin.requests.count == 3)
        }
    }

    // MARK: Signatures after a challenge

    private static func signing() -> FixedCredentialSource {
        FixedCredentialSource(name: "camera", strategy: "sample", signer: .afterChallenge(SampleSigner()))
    }

    /// Lets in what is signed with `nonce`, if anything is, and sends these fields with each response.
    private func challenging(_ nonce: String, lettingIn isRight: Bool = true, _ fields: String = "") throws -> RawOrigin
    {
        try RawOrigin { connection, _, origin in
            while let message = connection.readMessage() {
                origin.record(message.head + message.body)
                let isSigned = message.head.contains("\r\nAuthorization: Sample \(nonce) ")
                let status =
                    isSigned && isRight ? "200 OK" : "401 Unauthorized\r\nWWW-Authenticate: Sample nonce=\(nonce)"
                connection.send("HTTP/1.1 \(status)\r\n\(fields)Content-Length: 0\r\n\r\n")
            }
        }
    }

    @Test func aChallengeIsAnsweredWithASignatureAndLaterRequestsAreSignedAtOnce() async throws {
        let origin = try challenging("n", "Authentication-Info: rspauth=\"secret\"\r\n")
        let source = Self.signing()
        try await withProxy(origin, source: source) { proxy in
            for count in 1...3 {
                let answer = try proxy.exchange(Self.post).head
                #expect(answer.hasPrefix("HTTP/1.1 200") && !answer.contains("rspauth"))
                #expect(origin.requests.count == count + 1)
                let last = try #require(origin.requests.last)
                #expect(last.contains("\r\nAuthorization: Sample n \(count) POST /") && last.hasSuffix("body"))
            }
            // What the client itself sent goes to nobody.
            #expect(!origin.requests[0].contains("Authorization"))
        }
        #expect(source.acceptance.acceptedAt != nil && source.acceptance.rejectedAt == nil)
    }

    @Test func aWrongSignatureIsSentOnceForEachRequest() async throws {
        let origin = try challenging("n", lettingIn: false)
        let source = Self.signing()
        try await withProxy(origin, source: source) { proxy in
            for count in 1...3 {
                let answer = try proxy.exchange(Self.post).head
                #expect(answer.hasPrefix("HTTP/1.1 401"))
                #expect(origin.requests.count == 2 * count)
                #expect(origin.requests.filter { $0.contains("Authorization: Sample n 1 POST /") }.count == count)
            }
        }
        #expect(source.acceptance.rejectedAt != nil)
    }

    @Test func whatIsTooLongToBeSentAgainGetsTheNextRequestSigned() async throws {
        let origin = try challenging("n")
        var limits = Limits()
        limits.replayBodyBytes = 3
        let source = Self.signing()
        try await withProxy(origin, source: source, limits: limits) { proxy in
            let refused = try proxy.exchange(Self.post).head
            #expect(refused.hasPrefix("HTTP/1.1 401"))
            #expect(refused.contains("Gateway-Token: retried=0; reason=\"request body not held\"\r\n"))
            let accepted = try proxy.exchange(Self.post).head
            #expect(accepted.hasPrefix("HTTP/1.1 200"))
            #expect(origin.requests.count == 2)
        }
        #expect(source.acceptance.rejectedAt == nil)
    }

    @Test func aRequestWhoseChallengeNobodyCanAnswerCountsAsNothing() async throws {
        let origin = try asking("Basic realm=x")
        let source = Self.signing()
        try await withProxy(origin, source: source) { proxy in
            let answer = try proxy.exchange(Self.post).head
            #expect(answer.hasPrefix("HTTP/1.1 401"))
            #expect(origin.requests.count == 1)
        }
        #expect(source.acceptance.rejectedAt == nil)
    }
}

/// Signs with the nonce of a challenge, a count, the method and the path.
private struct SampleSigner: ChallengeSigner {
    let identity = GrantIdentity(strategy: "sample", subject: nil)

    func session(answering challenges: [AuthChallenge], clientNonce: String) -> (any SigningSession)? {
        let challenge = challenges.first { $0.scheme == "sample" }
        return challenge?.parameters["nonce"].map { SampleSession(nonce: $0) }
    }
}

private struct SampleSession: SigningSession {
    let nonce: String
    let realm = "sample"
    let isStale = false

    func sign(_ request: SignableRequest, number: UInt32) -> RequestSignature {
        let path = String(decoding: request.path, as: UTF8.self)
        let value = Secret("Sample \(nonce) \(number) \(request.method) \(path)")
        return RequestSignature(fields: [Injection.Field(name: "Authorization", value: value)])
    }

    func next(after info: [UInt8]) -> (any SigningSession)? { nil }
}
