import Foundation
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Synchronization
import Testing

@testable import GatewayProxy

/// Credentials that sign each request (``RequestSigner``).
@Suite("Signed requests", .timeLimit(.minutes(5)))
struct SigningTests {
    private func origin(_ answer: String = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") throws -> RawOrigin {
        try RawOrigin { connection, _, origin in
            while let message = connection.readMessage() {
                origin.record(message.head + message.body)
                connection.send(answer)
            }
        }
    }

    private func source(_ signer: TellingSigner = TellingSigner()) -> FixedCredentialSource {
        FixedCredentialSource(name: "keys", strategy: "telling", signer: .everyRequest(signer))
    }

    @Test func whatIsSentIsSigned() async throws {
        let origin = try origin()
        let port = origin.port
        try await withProxy(origin, source: source(), route: { $0.upstreamPath = "/v1" }) { proxy in
            let head = "GET /api/a%20b?x=1 HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nX-Sum: mine\r\n"
            _ = try proxy.exchange(head + "Authorization: Bearer dummy\r\nConnection: x-hop\r\nX-Hop: 1\r\n\r\n")
            let sent = try #require(origin.requests.first)
            #expect(sent.hasPrefix("GET /v1/a%20b?x=1 HTTP/1.1\r\n"))
            let sum = "GET /v1/a%20b ?x=1 127.0.0.1:\(port) accept,x-sum!,authorization!,connection!,x-hop! none "
            #expect(sent.contains("\r\nX-Sum: \(sum)\r\n"))
            #expect(!sent.contains("mine") && !sent.contains("dummy"))
        }
    }

    @Test func aQueryCanBeReplacedAndRemoved() async throws {
        let origin = try origin()
        try await withProxy(origin, source: source(TellingSigner(query: ""))) { proxy in
            _ = try proxy.exchange("GET /api/a?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(origin.requests.first?.hasPrefix("GET /a HTTP/1.1\r\n") == true)
        }
        let other = try self.origin()
        let long = "y=" + String(repeating: "2", count: 3000)
        try await withProxy(other, source: source(TellingSigner(query: long))) { proxy in
            _ = try proxy.exchange("GET /api/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(other.requests.first?.hasPrefix("GET /a?\(long) HTTP/1.1\r\n") == true)
        }
    }

    @Test(arguments: [
        "Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
    ])
    func aBodyThatIsSignedIsCollectedFirst(_ rest: String) async throws {
        let origin = try origin()
        try await withProxy(origin, source: source(TellingSigner(demand: .wholeBody))) { proxy in
            let answer = try proxy.exchange("POST /api/a HTTP/1.1\r\nHost: localhost\r\n\(rest)")
            #expect(answer.head.hasPrefix("HTTP/1.1 200 "))
            let sent = try #require(origin.requests.first)
            #expect(sent.contains(" whole hello\r\n"))
            // S3 refuses chunks.
            #expect(sent.contains("\r\nContent-Length: 5\r\n"))
            #expect(!sent.contains("Transfer-Encoding"))
            #expect(sent.hasSuffix("\r\n\r\nhello"))
        }
    }

    @Test func anEmptyChunkedBodyIsSignedToo() async throws {
        let origin = try origin()
        try await withProxy(origin, source: source(TellingSigner(demand: .wholeBody))) { proxy in
            let head = "POST /api/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            try #expect(proxy.exchange(head + "0\r\n\r\n").head.hasPrefix("HTTP/1.1 200 "))
            #expect(origin.requests.first?.contains("\r\nContent-Length: 0\r\n") == true)
        }
    }

    @Test func aClientThatWaitsFor100GetsItFromTheGateway() async throws {
        let origin = try origin()
        try await withProxy(origin, source: source(TellingSigner(demand: .wholeBody))) { proxy in
            let client = try proxy.client()
            let head = "POST /api/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
            client.send(head)
            #expect(client.read(through: "\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n")
            #expect(origin.requests.isEmpty)
            client.send("hello")
            #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 200 ") == true)
            #expect(origin.requests.first?.lowercased().contains("expect:") == false)
        }
    }

    @Test func aBodyTooLongToBeSignedReachesNobody() async throws {
        let origin = try origin()
        var limits = Limits()
        limits.replayBodyBytes = 4
        let rests = ["Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"]
        try await withProxy(origin, source: source(TellingSigner(demand: .wholeBody)), limits: limits) { proxy in
            for rest in rests {
                let answer = try proxy.exchange("POST /api/a HTTP/1.1\r\nHost: localhost\r\n\(rest)")
                #expect(answer.head.hasPrefix("HTTP/1.1 413 "))
                #expect(answer.body.contains("limits.replay_body_bytes: 4"))
            }
            #expect(origin.connections == 0)
        }
    }

    // MARK: Bodies with signatures

    private static let chunked = "Transfer-Encoding: chunked\r\n\r\n3\r\nab;\r\n5\r\ncd;ef\r\n1\r\n;\r\n0\r\n\r\n"

    @Test(arguments: ["Content-Length: 9\r\n\r\nab;cd;ef;", chunked])
    func aBodyIsSignedWhileItIsForwarded(_ rest: String) async throws {
        let isChunked = rest == Self.chunked
        let origin = try RawOrigin { connection, _, origin in
            let head = connection.read(through: "\r\n\r\n") ?? ""
            origin.record(
                head + (isChunked ? connection.read(through: "\r\n0\r\n\r\n") : connection.read(count: 9)).orEmpty
            )
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            try connection.readToEnd(.closed)
        }
        try await withProxy(origin, source: source(TellingSigner(body: SectionSigner()))) { proxy in
            let client = try proxy.client()
            let request = "PUT /api/a HTTP/1.1\r\nHost: localhost\r\n\(rest)"
            // In the middle of a section, and of a chunk of HTTP.
            client.send(String(request.dropLast(isChunked ? 19 : 4)))
            client.waitAtMost(milliseconds: 100)
            #expect(client.readMessage() == nil)
            client.send(String(request.suffix(isChunked ? 19 : 4)))
            client.waitAtMost(milliseconds: 5000)
            #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 200 ") == true)
            client.close()
            let sent = try #require(origin.requests.first)
            #expect(sent.contains(" streamed "))
            let body = sent.components(separatedBy: "\r\n\r\n").dropFirst().joined(separator: "\r\n\r\n")
            if isChunked {
                // Framed anew: a part of the body may be less or more than a chunk of the client.
                let content = body.components(separatedBy: "\r\n").enumerated().filter { $0.offset % 2 == 1 }.map(
                    \.element
                )
                #expect(content.joined() == "A1;B2;C3;", "\(body)")
            } else {
                #expect(body == "A1;B2;C3;")
            }
        }
    }

    /// The upstream must not take such a body for complete.
    @Test(arguments: [
        ("Content-Length: 8\r\n\r\nab;", "cd;ef"), ("Content-Length: 6\r\n\r\nab;", "!!;"),
        ("Transfer-Encoding: chunked\r\n\r\n3\r\nab;\r\n", "2\r\nef\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n\r\n3\r\nab;\r\n", "3\r\n!!;\r\n0\r\n\r\n"),
    ])
    func aBodyThatBreaksTheRulesOfItsSignerIsNeverComplete(_ first: String, _ rest: String) async throws {
        let signed = first.hasPrefix("Transfer-Encoding") ? "3\r\nA1;\r\n" : "A1;"
        let origin = try RawOrigin { connection, _, origin in
            _ = connection.read(through: "\r\n\r\n")
            origin.record(connection.read(count: signed.utf8.count).orEmpty)
            origin.record(try connection.readToEnd(.closed, .reset))
        }
        try await withProxy(origin, source: source(TellingSigner(body: SectionSigner()))) { proxy in
            let client = try proxy.client()
            client.send("PUT /api/a HTTP/1.1\r\nHost: localhost\r\n\(first)")
            try blockUntil("the first section has been sent") { origin.requests == [signed] }
            client.send(rest)
            let answer = try #require(client.readMessage())
            client.close()
            #expect(answer.head.hasPrefix("HTTP/1.1 400 ") && answer.body.contains("No section."), "\(answer)")
            try origin.finish()
            #expect(origin.requests == [signed, ""])
        }
    }

    @Test func aReplayIsSignedAnew() async throws {
        let origin = try RawOrigin { connection, number, origin in
            while let message = connection.readMessage() {
                origin.record(message.head + message.body)
                guard number > 1 || message.body.isEmpty else { return connection.close() }
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }
        }
        let signer = TellingSigner(body: SectionSigner())
        try await withProxy(origin, source: source(signer)) { proxy in
            let client = try proxy.client()
            client.send("GET /api/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(client.readMessage()?.body == "ok")
            client.send("PUT /api/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\nab;cd;")
            #expect(client.readMessage()?.body == "ok")
            client.close()
            #expect(origin.requests.count == 3)
            // Each request is read once, and each attempt has its own signature.
            #expect(signer.plans.value.load(ordering: .relaxed) == 2)
            // The second signature of each attempt follows from its first.
            #expect(origin.requests.dropFirst().allSatisfy { $0.hasSuffix("\r\n\r\nA1;B2;") }, "\(origin.requests)")
        }
    }

    @Test func whatWaitsForItsSignatureCountsAsMemoryOfTheClient() async throws {
        let origin = try origin()
        var limits = Limits()
        (limits.replayBodyBytes, limits.uploadMemory) = (0, 10_000)
        let source = source(TellingSigner(body: SectionSigner()))
        try await withProxy(origin, source: source, limits: limits) { proxy in
            let content = String(repeating: "x", count: 6_000)
            let head = "PUT /api/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6001\r\n\r\n"
            let clients = [try proxy.client(), try proxy.client()]
            for client in clients {
                client.send(head + content)
                client.waitAtMost(milliseconds: 500)
            }
            let answers = clients.map { $0.readMessage()?.head }
            #expect(answers.contains { $0?.hasPrefix("HTTP/1.1 429 ") == true }, "\(answers)")
            for client in clients { client.close() }
        }
    }

    @Test func aRefusedRequestReachesNobody() async throws {
        let origin = try origin()
        let problem = GatewayProblem(.routeForbidden, "Another region.")
        try await withProxy(origin, source: source(TellingSigner(demand: .refused(problem)))) { proxy in
            let answer = try proxy.exchange("GET /api/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(answer.head.hasPrefix("HTTP/1.1 403 "))
            #expect(origin.connections == 0)
        }
    }

    @Test func whileItIsLockedNothingIsSigned() async throws {
        let origin = try origin()
        let source = source()
        try await withProxy(origin, source: source) { proxy in
            source.lock()
            let request = "GET /api/a HTTP/1.1\r\nHost: localhost\r\n\r\n"
            try #expect(proxy.exchange(request).head.hasPrefix("HTTP/1.1 503 "))
            #expect(origin.requests.isEmpty)
            source.unlock()
            try #expect(proxy.exchange(request).head.hasPrefix("HTTP/1.1 200 "))
        }
    }

    @Test func aCredentialThatIsLockedWhileTheBodyIsCollectedSignsNothing() async throws {
        let origin = try origin()
        let source = source(TellingSigner(demand: .wholeBody))
        try await withProxy(origin, source: source) { proxy in
            let client = try proxy.client()
            client.send("POST /api/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
            #expect(client.read(through: "\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n")
            source.lock()
            client.send("ab")
            #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 503 ") == true)
            #expect(origin.connections == 0)
        }
    }

    @Test func whatIsCollectedCountsAsMemoryOfTheClient() async throws {
        let origin = try origin()
        var limits = Limits()
        (limits.replayBodyBytes, limits.uploadMemory) = (6_000, 10_000)
        try await withProxy(origin, source: source(TellingSigner(demand: .wholeBody)), limits: limits) { proxy in
            let head = "POST /api/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6000\r\n\r\n"
            let content = String(repeating: "x", count: 6_000)
            let clients = [try proxy.client(), try proxy.client()]
            for client in clients {
                client.send(head + content.dropLast())
                client.waitAtMost(milliseconds: 500)
            }
            let answers = clients.map { $0.readMessage()?.head }
            #expect(answers.contains { $0?.hasPrefix("HTTP/1.1 429 ") == true }, "\(answers)")
            for (client, answer) in zip(clients, answers) where answer == nil {
                client.waitAtMost(milliseconds: 5000)
                client.send("x")
                #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 200 ") == true)
            }
            // All of it was given back.
            try #expect(proxy.exchange(head + content).head.hasPrefix("HTTP/1.1 200 "))
        }
    }

    @Test(arguments: [
        ("/public/other", "200"), ("/private", "403"), ("/public/../private", "403"), ("/public/%2e%2e/private", "403"),
        ("", "403"),
    ])
    func whatARequestReadsBesidesMustBeAllowedToo(_ path: String, _ status: String) async throws {
        let origin = try origin()
        let signer = TellingSigner(otherPaths: [path.isEmpty ? nil : Array(path.utf8)])
        let request = "PUT /api/public/a HTTP/1.1\r\nHost: localhost\r\n\r\n"
        try await withProxy(origin, source: source(signer)) { route in
            route.allow = [.init(methods: ["GET", "PUT"], path: PathPattern("/public/**") ?? PathPattern.all)]
        } _: { proxy in
            let answer = try proxy.exchange(request)
            #expect(answer.head.hasPrefix("HTTP/1.1 \(status) "))
            #expect(origin.requests.count == (status == "200" ? 1 : 0))
        }
        try await withProxy(self.origin(), source: source(signer)) { proxy in
            try #expect(proxy.exchange(request).head.hasPrefix("HTTP/1.1 200 "))
        }
    }

    @Test(arguments: [("/public/other", "200"), ("/secret/a", "403")])
    func whatNeedsAnApprovalIsNotReadByAnotherRequest(_ path: String, _ status: String) async throws {
        let origin = try origin()
        try await withProxy(origin, source: source(TellingSigner(otherPaths: [Array(path.utf8)]))) { route in
            let secret = PathPattern("/secret/**") ?? PathPattern.all
            route.allow = [
                .init(methods: [], path: PathPattern.all),
                .init(methods: ["GET"], path: secret, needsApproval: true),
            ]
        } _: { proxy in
            let answer = try proxy.exchange("PUT /api/public/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(answer.head.hasPrefix("HTTP/1.1 \(status) "))
            #expect(origin.requests.count == (status == "200" ? 1 : 0))
        }
    }

    @Test func rejectionsAreCounted() async throws {
        let origin = try origin("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        let source = source()
        try await withProxy(origin, source: source) { proxy in
            let answer = try proxy.exchange("GET /api/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(answer.head.hasPrefix("HTTP/1.1 403 "))
            #expect(source.awaitsAcceptance)
        }
    }
}

/// What a response to a signed request says about its keys and its date.
@Suite("Rejected signatures", .timeLimit(.minutes(5)))
struct RejectedSignatureTests {
    /// Answers with the status, `Date` and body that `judge` returns for a head, or with 200.
    private func origin(
        _ judge: @escaping @Sendable (String) -> (status: String, date: UnixTime?, body: String)?
    ) throws -> RawOrigin {
        try RawOrigin { connection, _, origin in
            while let message = connection.readMessage() {
                origin.record(message.head + message.body)
                guard let answer = judge(message.head) else {
                    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                    continue
                }
                let date = answer.date.map { "Date: \($0.httpDate)\r\n" } ?? ""
                connection.send(
                    "HTTP/1.1 \(answer.status)\r\n\(date)Content-Type: application/x-amz-json-1.0\r\n"
                        + "Content-Length: \(answer.body.utf8.count)\r\n\r\n\(answer.body)"
                )
            }
        }
    }

    /// The date that ``TellingSigner`` signed.
    private static func date(in head: String) -> UnixTime? {
        let value = head.firstRange(of: "X-Date: ").map { head[$0.upperBound...].prefix { $0.isNumber } }
        return value.flatMap { Int64($0) }.map { UnixTime(seconds: $0) }
    }

    private func clock(ahead: Duration) throws -> RawOrigin {
        let first = Mutex<UnixTime?>(nil)
        return try origin { head in
            guard let date = Self.date(in: head) else { return ("500 No date", nil, "") }
            let now = first.withLock { first in
                first = first ?? date + ahead
                return first ?? date
            }
            return abs((now - date).components.seconds) < 300 ? nil : ("403 Forbidden", now, "time")
        }
    }

    private let post = "POST /api/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"

    @Test func rejectedKeysAreRenewedAndTheRequestIsReplayed() async throws {
        let origin = try origin { $0.contains("keys-2") ? nil : ("400 Bad Request", nil, "keys") }
        let source = ScriptedSource { state in
            state.signer = { .everyRequest(TellingSigner(judgedStatuses: [400], name: "keys-\($0)")) }
        }
        let post = post
        try await withProxy(origin, source: source) { proxy in
            try #expect(proxy.exchange(post).head.hasPrefix("HTTP/1.1 200 "))
            #expect(origin.requests.count == 2)
            #expect(origin.requests.allSatisfy { $0.hasSuffix("\r\n\r\nhello") })
            #expect(source.state.withLock { $0.renewals } == 1)
        }
    }

    @Test func keysThatAreRejectedAgainAreNotRenewedAgain() async throws {
        let origin = try origin { _ in ("400 Bad Request", nil, "keys") }
        let source = ScriptedSource { state in
            state.signer = { _ in .everyRequest(TellingSigner(judgedStatuses: [400])) }
        }
        let post = post
        try await withProxy(origin, source: source) { proxy in
            let answer = try proxy.exchange(post)
            #expect(answer.head.hasPrefix("HTTP/1.1 400 ") && answer.body == "keys")
            #expect(origin.requests.count == 2)
            #expect(source.state.withLock { $0.renewals } == 1)
        }
    }

    @Test(arguments: [("another reason", "400 Bad Request"), ("keys", "500 Failed"), ("time", "403 Forbidden")])
    func otherResponsesPass(_ body: String, _ status: String) async throws {
        let origin = try origin { _ in (status, nil, body) }
        let source = ScriptedSource { state in
            state.signer = { _ in .everyRequest(TellingSigner(judgedStatuses: [400, 403])) }
        }
        let post = post
        try await withProxy(origin, source: source) { proxy in
            let answer = try proxy.exchange(post)
            #expect(answer.head.hasPrefix("HTTP/1.1 \(status)\r\n") && answer.body == body)
            #expect(origin.requests.count == 1)
            #expect(source.state.withLock { $0.renewals } == 0)
        }
    }

    @Test func rejectedKeysOfTheConfigurationAreReported() async throws {
        let origin = try origin { _ in ("400 Bad Request", nil, "keys") }
        let rejections = Atomic(0)
        let source = FixedCredentialSource(
            name: "keys",
            strategy: "telling",
            signer: .everyRequest(TellingSigner(judgedStatuses: [400])),
            keysRejected: { rejections.add(1, ordering: .relaxed) }
        )
        let post = post
        try await withProxy(origin, source: source) { proxy in
            try #expect(proxy.exchange(post).head.hasPrefix("HTTP/1.1 400 "))
            #expect(origin.requests.count == 1)
            #expect(source.awaitsAcceptance)
            #expect(rejections.load(ordering: .relaxed) == 1)
        }
    }

    @Test(arguments: [Duration.seconds(600), .seconds(-600), .seconds(1100)])
    func theUpstreamsClockDatesSignaturesAndIsRemembered(_ ahead: Duration) async throws {
        let origin = try clock(ahead: ahead)
        let signer = TellingSigner(judgedStatuses: [403])
        let source = FixedCredentialSource(name: "keys", strategy: "telling", signer: .everyRequest(signer))
        let post = post
        try await withProxy(origin, source: source) { proxy in
            try #expect(proxy.exchange(post).head.hasPrefix("HTTP/1.1 200 "))
            #expect(origin.requests.count == 2)
            #expect(origin.requests.allSatisfy { $0.hasSuffix("\r\n\r\nhello") })
            try #expect(proxy.exchange(post).head.hasPrefix("HTTP/1.1 200 "))
            #expect(origin.requests.count == 3)
            #expect(!source.awaitsAcceptance)
        }
    }

    @Test func aClockThatIsTooFarOffIsNotFollowed() async throws {
        let origin = try clock(ahead: .seconds(7200))
        let signer = TellingSigner(judgedStatuses: [403])
        let source = FixedCredentialSource(name: "keys", strategy: "telling", signer: .everyRequest(signer))
        let post = post
        try await withProxy(origin, source: source) { proxy in
            try #expect(proxy.exchange(post).head.hasPrefix("HTTP/1.1 403 "))
            #expect(origin.requests.count == 1)
            // Nobody is told to check the secret.
            #expect(!source.awaitsAcceptance)
        }
    }
}

/// Replaces the text before each `;` with a letter and a digit. Both follow from how many came before.
struct SectionSigner: BodySigner {
    private var held: [UInt8] = []
    private var number: UInt8 = 0

    var heldBytes: Int { held.count }

    mutating func sign(_ part: borrowing Span<UInt8>, isLast: Bool) throws(GatewayProblem) -> [UInt8] {
        held += part.array(0..<part.count)
        var signed: [UInt8] = []
        while let end = held.firstIndex(of: UInt8(ascii: ";")) {
            guard held[..<end].allSatisfy({ $0 != UInt8(ascii: "!") }) else {
                throw GatewayProblem(.requestRefused, "No section.")
            }
            number += 1
            signed += [UInt8(ascii: "@") + number, UInt8(ascii: "0") + number]
            signed += [UInt8](repeating: UInt8(ascii: "-"), count: max(end - 2, 0)) + [UInt8(ascii: ";")]
            held.removeFirst(end + 1)
        }
        guard !isLast || held.isEmpty else { throw GatewayProblem(.requestRefused, "No section.") }
        return signed
    }
}

extension String? {
    fileprivate var orEmpty: String { self ?? "" }
}

/// Signs with a text that says what it was given. Reads `keys` and `time` in the body of a response.
struct TellingSigner: RequestSigner {
    enum Demand {
        case head
        case wholeBody
        case refused(GatewayProblem)
    }

    var demand = Demand.head
    var body: SectionSigner?
    var query: String?
    var otherPaths: [[UInt8]?] = []
    var judgedStatuses: [Int] = []
    var name = ""
    /// How often it has read a request.
    var plans = Count()

    final class Count: Sendable {
        let value = Atomic(0)
    }

    var identity: GrantIdentity { GrantIdentity(strategy: "telling", subject: nil) }
    let ownedFields = ["Authorization", "X-Sum"]

    func otherPaths(of request: SignableRequest) -> [[UInt8]?] { otherPaths }

    func plan(for request: SignableRequest) -> Result<any SigningPlan, GatewayProblem> {
        plans.value.add(1, ordering: .relaxed)
        if case .refused(let problem) = demand { return .failure(problem) }
        return .success(Plan(self, request))
    }

    private final class Plan: SigningPlan {
        private let signer: TellingSigner
        private let request: SignableRequest

        init(_ signer: TellingSigner, _ request: SignableRequest) {
            self.signer = signer
            self.request = request
        }

        var needsBody: Bool { if case .wholeBody = signer.demand { request.hasBody } else { false } }

        func sign(at time: UnixTime, _ content: borrowing Span<UInt8>) -> Result<RequestSignature, GatewayProblem> {
            .success(signer.signature(of: request, at: time, needsBody: needsBody, content))
        }
    }

    func verdict(on response: TokenReply, isToHead: Bool) -> SignatureVerdict? {
        switch String(decoding: response.body, as: UTF8.self) {
        case "keys": .keysRejected
        case "time": .wrongTime(least: 30)
        default: nil
        }
    }

    private func signature(
        of request: SignableRequest,
        at time: UnixTime,
        needsBody: Bool,
        _ content: borrowing Span<UInt8>
    ) -> RequestSignature {
        let fields = request.fields.filter {
            $0.name != "content-length" && $0.name != "transfer-encoding" && $0.name != "host"
        }
        .map { $0.name + ($0.isForwarded ? "" : "!") }
        let body = needsBody ? "whole" : request.hasBody ? "streamed" : "none"
        let parts = [
            request.method, String(decoding: request.path, as: UTF8.self),
            "?" + String(decoding: request.query ?? [], as: UTF8.self), request.host, fields.joined(separator: ","),
            body,
            content.string(0..<content.count),
        ]
        let sum = Injection.Field(name: "X-Sum", value: Secret(parts.joined(separator: " ")))
        let date = Injection.Field(name: "X-Date", value: Secret("\(time.milliseconds / 1000) \(name)"))
        let fieldsOfSignature = judgedStatuses.isEmpty ? [sum] : [sum, date]
        return RequestSignature(fields: fieldsOfSignature, query: query.map { Array($0.utf8) }, body: self.body)
    }
}
