import Foundation
import GatewayHTTP
import GatewayTokens
import Testing

@testable import GatewayProxy

@Suite("Explanation", .timeLimit(.minutes(5)))
struct ExplanationTests {
    private static let canary = "CANARY-5f2c9a"
    private static let listener = BoundListener(
        address: .tcp(host: "127.0.0.1", port: 8080),
        port: 8080,
        isTLS: false
    )
    private static let now = UnixTime(seconds: 1_800_000_000)

    private static func judgement(_ text: String) throws -> RequestJudgement {
        guard case .request(let request) = try ExplainInput(text),
            let listenerMatch = ListenerMatch(of: request, to: [listener], knowsHost: { _ in false })
        else { throw UnusableInput("no request") }
        return RequestJudgement(request, listenerMatch: listenerMatch)
    }

    /// A request that goes to the upstream, with a credential in a field and in the query.
    private static func forwarded(
        _ text: String,
        answer: RequestJudgement.CredentialUse.Answer = .ready(generation: 14)
    ) throws -> RequestJudgement {
        let route = AuthorizerFixture.route("box", credential: 0)
        var judgement = try judgement(text)
        judgement.route = route
        let head = judgement.listenerMatch.head(of: judgement.request, contentLength: judgement.request.contentLength)
        judgement.trace = try #require(AuthorizerFixture([route]).trace(head, routes: [route]))
        let field = DescribedRequest.Field("Authorization", "Bearer (token of box, generation 14)")
        judgement.credential = RequestJudgement.CredentialUse(
            name: "box",
            strategy: "box_ccg",
            hasToken: true,
            answer: answer,
            fields: [field],
            parameter: "key"
        )
        let lines = [
            "GET /2.0/a?x=\(canary)&key=token HTTP/1.1", "Host: up.example", "Authorization: \(field.value)",
            "X-Api-Key: \(canary)", "Cookie: \(canary)", "Authorization: Bearer \(canary)", "Accept: */*", "", "",
        ]
        judgement.departure = RequestJudgement.Departure(
            head: Array(lines.joined(separator: "\r\n").utf8),
            dropped: [("Connection", .hopByHop), ("Proxy-Authorization", .hopByHop), ("Cookie", .cookiePolicy)],
            added: [.init("Host", "up.example"), field]
        )
        return judgement
    }

    private static func explain(_ judgement: RequestJudgement, _ status: TokenStatus? = nil) -> Explanation {
        Explanation(judgement, status: status, source: .gateway, at: now)
    }

    private static var status: TokenStatus {
        TokenStatus(
            credential: "box",
            strategy: "box_ccg",
            subject: nil,
            state: .valid,
            generation: 14,
            obtainedAt: (now + .seconds(-720)).rfc3339,
            expiresAt: (now + .seconds(2880)).rfc3339,
            remainingSeconds: 2880,
            isRenewable: true
        )
    }

    @Test func aRequestThatIsForwardedIsToldStepByStep() throws {
        let explanation = Self.explain(try Self.forwarded("http://localhost:8080/box/2.0/a?x=1"), Self.status)
        #expect(explanation.verdict == "Would be forwarded to https://up.example/2.0/a with credential box.")
        #expect(explanation.outcome == .forwarded && explanation.refusal == nil)
        #expect(explanation.steps.map(\.name) == ["route", "client", "credential"])
        #expect(explanation.credential?.ageSeconds == 720)
        let text = explanation.text()
        for part in [
            "request     GET /box/2.0/a?x=***, Host localhost:8080, to http://127.0.0.1:8080",
            "route       box: the path begins with /box",
            "credential  box (box_ccg): valid, generation 14, 12m00s old, expires in 48m00s",
            "added       Host: up.example\n            Authorization: Bearer (token of box, generation 14)",
            "removed     Connection: it belongs to one connection",
            "The upstream gets:\n  GET /2.0/a?x=***&key=(box) HTTP/1.1\n  Host: up.example\n",
        ] { #expect(text.contains(part), "\(part) in\n\(text)") }
    }

    @Test func noSecretIsShown() throws {
        let secret = Self.canary
        let input =
            "curl -H 'Authorization: Bearer \(secret)' -H 'X-Api-Key: \(secret)' -b 'a=\(secret)' -d \(secret)"
            + " -H 'X-Vault-Token: \(secret)' -U u:\(secret) 'http://u:\(secret)@localhost:8080/box/a?\(secret)&k=\(secret)'"
        let explanation = Self.explain(try Self.forwarded(input), Self.status)
        let json = String(decoding: try JSONEncoder().encode(explanation), as: UTF8.self)
        #expect(!json.contains(secret) && !explanation.text().contains(secret), "\(explanation.text())")
        #expect(explanation.text().contains("X-Api-Key: ***"))
    }

    @Test func aMissingTokenIsWaitedFor() throws {
        let explanation = Self.explain(try Self.forwarded("http://localhost:8080/box/a", answer: .awaited))
        #expect(explanation.outcome == .waits)
        #expect(explanation.verdict.hasSuffix("once it has a token: it has none, and the request waits for one."))
        #expect(explanation.text().contains("whether it has a token is not known here"))
    }

    @Test func aRefusalSaysWhatTheClientIsTold() throws {
        var judgement = try Self.forwarded(
            "http://localhost:8080/box/a",
            answer: .unavailable(GatewayProblem(.loginRequired, "Log in.", command: "authgateway login box"))
        )
        judgement.problem = judgement.credential.flatMap { use in
            if case .unavailable(let problem) = use.answer { problem } else { nil }
        }
        judgement.departure = nil
        let explanation = Self.explain(judgement)
        #expect(explanation.verdict == "Would be refused: 503 login-required: Log in.")
        #expect(explanation.refusal?.detailForClient?.hasPrefix("There is no credential") == true)
        #expect(explanation.steps.last?.name == "credential" && explanation.steps.last?.passes == false)
        #expect(explanation.text().contains("Run:\n  authgateway login box\n"))
        #expect(explanation.text().hasSuffix("\nWhat the code means:\n  authgateway explain-error login-required\n"))
        judgement.disclosesNames = true
        #expect(Self.explain(judgement).refusal?.detailForClient == nil)
    }

    @Test func aRefusedPhantomIsAStepOfItsOwn() throws {
        var judgement = try Self.judgement("http://localhost:8080/a")
        judgement.trace.add(.phantomRefused)
        judgement.problem = GatewayProblem(.routeForbidden, "Only in Authorization.")
        #expect(Self.explain(judgement).text().contains("\ncapture     refused: Only in Authorization.\n"))
    }

    @Test func manyRoutesAreCounted() throws {
        let routes = (0..<40).map { AuthorizerFixture.route("r\($0)") }
        var judgement = try Self.judgement("http://localhost:8080/r7/a")
        let head = judgement.listenerMatch.head(of: judgement.request, contentLength: 0)
        judgement.trace = try #require(AuthorizerFixture(routes).trace(head, routes: routes))
        judgement.route = routes[7]
        let explanation = Self.explain(judgement)
        #expect(explanation.otherRoutes.count == 20 && explanation.otherRouteCount == 39)
        #expect(explanation.text().contains("and not 31 more"))
    }

    @Test func controlCharactersAreEscapedAndLinesAreWrapped() throws {
        var judgement = try Self.judgement("http://localhost:8080/a")
        judgement.problem = GatewayProblem(
            .requestRefused,
            "bad \u{1B}[2J\n word " + String(repeating: "long ", count: 40)
        )
        let text = Self.explain(judgement).text(width: 60)
        #expect(!text.contains("\u{1B}") && text.contains("\\u{1b}"))
        let lines: [Substring] = text.split(separator: "\n").dropFirst().map { $0 }
        #expect(lines.allSatisfy { $0.count <= 60 }, "\(text)")
    }

    @Test func itSurvivesJSON() throws {
        let explanation = Self.explain(try Self.forwarded("POST http://localhost:8080/box/a"), Self.status)
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        #expect(try decoder.decode(Explanation.self, from: encoder.encode(explanation)) == explanation)
    }
}
