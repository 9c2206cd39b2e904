import FoundationEssentials
import GatewayFiles
import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("The token of a program that exec runs", .timeLimit(.minutes(1)))
struct RunTokensTests {
    private static let process = ProcessMark(number: 7, started: 42)

    private let uses = ClientTokenUses()

    private func begin(for client: String?, _ process: ProcessMark = process) -> String? {
        let original = client.map { Array("\($0)-token".utf8) }
        return uses.runs.begin(for: original, process: process) { $0 }?.withValue { $0 }
    }

    private func fixture(_ clients: [String], requireClient: AccessPlan.RequireClient = .auto) -> AuthorizerFixture {
        AuthorizerFixture([AuthorizerFixture.route("open")], clients: clients, requireClient: requireClient, uses: uses)
    }

    private static func request(_ fields: String...) -> String {
        "GET /open/x HTTP/1.1\r\nHost: localhost:8080\r\n" + fields.map { "\($0)\r\n" }.joined() + "\r\n"
    }

    private static func basic(_ user: String, _ password: String) -> String {
        "Authorization: Basic \(Data("\(user):\(password)".utf8).base64EncodedString())"
    }

    /// The fields that do not go upstream.
    private static func stripped(_ admitted: RequestAuthorizer.Admitted) -> [Bool] {
        [admitted.stripsAuthorization, !admitted.strippedKeys.isEmpty]
    }

    @Test func itProvesItsClientWhereverAnSDKSendsIt() throws {
        let token = try #require(begin(for: "laptop"))
        let fixture = fixture(["laptop", "ci"])
        let inAuthorization = [
            "Authorization: Bearer \(token)", "Authorization: token \(token)", "Authorization: ApiKey \(token)",
            "Authorization: Bearer sk-ant-\(token)", Self.basic(token, ""), Self.basic("x-access-token", token),
            Self.basic(token, "X"), Self.basic("", "sk-\(token)"),
        ]
        let inKeys = ["x-api-key: sk-ant-\(token)", "API-Key: \(token)", "X-Goog-Api-Key: \(token)"]
        for (fields, expected) in [(inAuthorization, [true, false]), (inKeys, [false, true])] {
            for field in fields {
                let admitted = try #require(fixture.admission(Self.request(field), on: .loopback), "\(field)")
                #expect(admitted.client == "laptop" && Self.stripped(admitted) == expected, "\(field)")
            }
        }
    }

    @Test(
        arguments: [
            "Authorization: Bearer x", "x-api-key: ${}0", "x-api-key: 0${}", "x-other-key: ${}",
            "x-api-key: a-prefix-that-is-longer-than-any-that-an-sdk-wants-${}",
        ]
    )
    func nothingElseIsTakenForIt(_ field: String) throws {
        let token = try #require(begin(for: "laptop"))
        let other = token.hasPrefix("f") ? "0" : "f"
        let text = field.replacing("0${}", with: other + token.dropFirst()).replacing("${}", with: token)
        let refusal = try #require(fixture(["laptop"]).refusal(Self.request(text)), "\(text)")
        #expect(refusal.problem.kind == .clientAuthRequired)
        let admitted = try #require(
            fixture(["laptop"], requireClient: .false).admission(Self.request(text), on: .loopback)
        )
        #expect(admitted.client == nil && admitted.strippedKeys.isEmpty)
    }

    /// Other machines reach such a listener.
    @Test(arguments: [ConnectionContext.Reach.network, .unix, .engine])
    func elsewhereThanOnLoopbackItProvesNothing(_ reach: ConnectionContext.Reach) throws {
        let token = try #require(begin(for: "laptop"))
        let request = Self.request("x-api-key: \(token)")
        #expect(fixture(["laptop"], requireClient: .true).refusal(request, on: reach) != nil)
        let open = try #require(fixture(["laptop"], requireClient: .false).admission(request, on: .unix))
        #expect(open.client == nil && Self.stripped(open) == [false, true], "it does not go upstream in any case")
    }

    @Test func behindCONNECTItProvesNothingAndStays() throws {
        let token = try #require(begin(for: "laptop"))
        let fixture = fixture(["laptop", "ci"])
        let origin = InterceptedOrigin(host: "up.example", port: 443, proof: Array("Bearer ci-token".utf8))
        let request =
            "GET /a HTTP/1.1\r\nHost: up.example\r\nx-api-key: \(token)\r\nAuthorization: Bearer \(token)\r\n\r\n"
        guard case .admitted(let admitted)? = fixture.decide(request, inPlaceOf: origin) else {
            Issue.record("it was refused")
            return
        }
        #expect(admitted.client == "ci" && Self.stripped(admitted) == [true, true])
    }

    @Test func withoutClientsItOnlyStays() throws {
        let token = try #require(begin(for: nil))
        let admitted = try #require(
            fixture([]).admission(Self.request("Authorization: Bearer \(token)"), on: .loopback)
        )
        #expect(admitted.client == nil && Self.stripped(admitted) == [true, false])
    }

    @Test func proofsOfTwoClientsAreRefused() throws {
        let token = try #require(begin(for: "laptop"))
        let both = Self.request("Authorization: Bearer ci-token", "x-api-key: \(token)")
        #expect(fixture(["laptop", "ci"]).refusal(both)?.problem.kind == .clientAuthRequired)
        let one = Self.request("Authorization: Bearer laptop-token", "x-api-key: \(token)")
        #expect(fixture(["laptop", "ci"]).admission(one, on: .loopback)?.client == "laptop")
    }

    @Test func aClientThatIsGoneHasNoPrograms() throws {
        let token = try #require(begin(for: "laptop"))
        let request = Self.request("Authorization: Bearer \(token)")
        #expect(fixture(["laptop"]).admission(request, on: .loopback) != nil)
        #expect(fixture(["ci"]).refusal(request) != nil, "a reload has removed the client")
    }

    @Test func itStandsForATokenOfTheConfiguration() throws {
        let clients = [AccessPlan.Client(name: "laptop", proof: .token(Secret("laptop-token")))]
        func begin(_ proof: String?) -> Result<Secret, GatewayProblem> {
            uses.runs.begin(as: proof.map { Secret($0) }, of: clients, Self.process) { $0 }
        }
        let token = try begin("laptop-token").get().withValue { $0 }
        let request = Self.request("Authorization: Bearer \(token)")
        #expect(fixture(["laptop"]).admission(request, on: .loopback)?.client == "laptop")
        #expect(throws: GatewayProblem.self) { _ = try begin("another-token").get() }
        #expect(try begin(nil).get() != Secret(token))
    }

    @Test func itEndsWithItsProgram() throws {
        let token = try #require(begin(for: "laptop"))
        let other = try #require(begin(for: "laptop", ProcessMark(number: 8, started: 1)))
        let fixture = fixture(["laptop"])
        func isKnown(_ token: String) -> Bool {
            fixture.admission(Self.request("x-api-key: \(token)"), on: .loopback) != nil
        }
        uses.runs.end { _ in true }
        #expect(isKnown(token) && isKnown(other))
        uses.runs.end { $0 != Self.process }
        #expect(!isKnown(token) && isKnown(other))
        uses.runs.end { _ in false }
        #expect(!isKnown(other) && !uses.runs.isInUse)
    }

    @Test func aClientHasOnlySoManyPrograms() throws {
        for number in 1...Int32(RunTokens.limitPerClient) {
            #expect(begin(for: nil, ProcessMark(number: number, started: 1)) != nil)
        }
        #expect(begin(for: nil) == nil && begin(for: "laptop") != nil && begin(for: "ci") != nil)
        uses.runs.end { $0.number != 1 }
        #expect(begin(for: nil) != nil)
    }
}
