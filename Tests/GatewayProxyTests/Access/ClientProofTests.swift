import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("What proves a client", .timeLimit(.minutes(1)))
struct ClientProofTests {
    private typealias Client = AccessPlan.Client

    private static let clients = [
        Client(name: "ci", tokens: [.token(Secret("ci-token"))], certificate: .exactly(.dns("ci.example.com"))),
        Client(name: "build", tokens: [], certificate: .exactly(.uri("spiffe://example.org/ns/build"))),
        Client(name: "any", tokens: [], certificate: .uriBelow("spiffe://example.org/ns/")),
        Client(name: "team", tokens: [], certificate: .uriBelow("spiffe://example.org/ns/team/")),
        Client(name: "laptop", tokens: [.token(Secret("new-token")), .token(Secret("old-token"))]),
    ]

    private static let fixture = AuthorizerFixture([AuthorizerFixture.route("open")], certificates: clients)

    private static func request(_ fields: [String]) -> String {
        "GET /open/x HTTP/1.1\r\nHost: localhost:8080\r\n" + fields.map { "\($0)\r\n" }.joined() + "\r\n"
    }

    /// The name of the client, or the kind of the refusal.
    private static func outcome(_ names: [PeerIdentity.Name], _ fields: [String]) -> String? {
        switch fixture.decide(request(fields), from: PeerIdentity(names)) {
        case .admitted(let admitted)?: admitted.client
        case .refused(let refusal)?: refusal.problem.kind.rawValue
        default: "no decision"
        }
    }

    struct Case: Sendable, CustomTestStringConvertible {
        let names: [PeerIdentity.Name]
        var fields: [String] = []
        let outcome: String
        var testDescription: String { "\(names) \(fields) -> \(outcome)" }
    }

    private static let refused = ProblemKind.clientAuthRequired.rawValue
    private static func spiffe(_ path: String) -> PeerIdentity.Name { .uri("spiffe://example.org/\(path)") }

    @Test(arguments: [
        Case(names: [.dns("ci.example.com")], outcome: "ci"),
        Case(names: [.dns("other"), .dns("ci.example.com")], outcome: "ci"),
        Case(names: [.dns("xci.example.com")], outcome: refused),
        Case(names: [.dns("*.example.com")], outcome: refused),
        Case(names: [.uri("ci.example.com")], outcome: refused),
        Case(names: [], outcome: refused),
        // The most exact name counts.
        Case(names: [spiffe("ns/build")], outcome: "build"),
        Case(names: [spiffe("ns/build/x")], outcome: "any"),
        Case(names: [spiffe("ns/team/x")], outcome: "team"),
        Case(names: [spiffe("ns/team")], outcome: "any"),
        Case(names: [spiffe("ns/")], outcome: refused),
        Case(names: [spiffe("ns")], outcome: refused),
        Case(names: [.uri("spiffe://example.org.evil/ns/x")], outcome: refused),
        Case(names: [.dns("spiffe://example.org/ns/x")], outcome: refused),
        // Several names of one client, and of several clients.
        Case(names: [spiffe("ns/team/x"), spiffe("ns/team/y")], outcome: "team"),
        Case(names: [spiffe("ns/build"), .dns("ci.example.com")], outcome: refused),
        // With a token.
        Case(names: [], fields: ["Authorization: Bearer ci-token"], outcome: "ci"),
        Case(names: [.dns("ci.example.com")], fields: ["Authorization: Bearer ci-token"], outcome: "ci"),
        Case(names: [.dns("ci.example.com")], fields: ["Authorization: Bearer for-the-upstream"], outcome: "ci"),
        Case(names: [.dns("ci.example.com")], fields: ["Authorization: Bearer new-token"], outcome: refused),
        Case(names: [spiffe("ns/build")], fields: ["Proxy-Authorization: Bearer ci-token"], outcome: refused),
        Case(
            names: [],
            fields: ["Authorization: Bearer ci-token", "Proxy-Authorization: Bearer new-token"],
            outcome: refused
        ),
        Case(
            names: [.dns("ci.example.com")],
            fields: ["Authorization: Bearer new-token", "Proxy-Authorization: Bearer ci-token"],
            outcome: refused
        ),
        Case(
            names: [],
            fields: ["Authorization: Bearer new-token", "Proxy-Authorization: Bearer old-token"],
            outcome: "laptop"
        ),
    ])
    func allProofsNameOneClientOrTheRequestIsRefused(_ proof: Case) {
        #expect(Self.outcome(proof.names, proof.fields) == proof.outcome)
    }

    @Test func proofsOfDifferentClientsAreRefusedWhereNoneIsNeeded() {
        let fixture = AuthorizerFixture(
            [AuthorizerFixture.route("open")],
            requireClient: .false,
            certificates: Self.clients
        )
        let fields = ["Authorization: Bearer ci-token", "Proxy-Authorization: Bearer new-token"]
        #expect(fixture.refusal(Self.request(fields), on: .unix)?.problem.kind == .clientAuthRequired)
        #expect(fixture.refusal(Self.request([]), on: .unix) == nil)
    }

    @Test func aTokenOfTheClientThatTheCertificateNamesDoesNotGoUpstream() {
        let peer = PeerIdentity([.dns("ci.example.com")])
        let request = Self.request(["Authorization: Bearer ci-token"])
        guard case .admitted(let admitted)? = Self.fixture.decide(request, from: peer) else {
            Issue.record("it was refused")
            return
        }
        #expect(admitted.tokenPlaces.hasAuthorization)
    }

    // MARK: Two tokens

    @Test func theLastUseOfEachTokenIsKnown() {
        let uses = ClientTokenUses()
        let laptop = Self.clients.filter { $0.name == "laptop" }
        let fixture = AuthorizerFixture([AuthorizerFixture.route("open")], certificates: laptop, uses: uses)
        func report(_ seconds: Int64) -> [String?] {
            uses.report(on: laptop, at: UnixTime(seconds: seconds)) { $0 }.map(\.lastUsedAt)
        }
        func use(_ token: String) {
            #expect(fixture.admission(Self.request(["Authorization: Bearer \(token)"]), on: .network) != nil)
        }
        #expect(report(0) == [nil, nil])
        use("old-token")
        #expect(report(1) == [nil, "1970-01-01T00:00:01.000Z"])
        use("new-token")
        uses.look(at: UnixTime(seconds: 2))
        #expect(report(3) == ["1970-01-01T00:00:02.000Z", "1970-01-01T00:00:01.000Z"])
        // A reload makes another authorizer, which marks the same tokens.
        _ = AuthorizerFixture([], certificates: laptop, uses: uses)
        use("old-token")
        #expect(report(4) == ["1970-01-01T00:00:02.000Z", "1970-01-01T00:00:04.000Z"])
        #expect(uses.report(on: laptop, at: UnixTime(seconds: 5)) { $0 }.map(\.number) == [1, 2])
    }
}
