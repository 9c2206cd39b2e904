import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("Names in refusals", .timeLimit(.minutes(5)))
struct NameDisclosureTests {
    @Test(
        arguments: [
            ("laptop", .network, true, true), ("laptop", .loopback, true, true), ("laptop", .unix, true, true),
            (nil, .network, true, false), (nil, .loopback, true, false), (nil, .unix, true, false),
            // Refused at load, and told nothing all the same.
            (nil, .network, false, false), (nil, .loopback, false, true), (nil, .unix, false, true),
        ] as [(String?, ConnectionContext.Reach, Bool, Bool)]
    )
    func knownClientsAreToldAndOthersOnLocalListenersWithoutClients(
        _ client: String?,
        _ reach: ConnectionContext.Reach,
        _ hasClients: Bool,
        _ isAllowed: Bool
    ) {
        #expect(NameDisclosure.isAllowed(to: client, on: reach, hasClients: hasClients) == isAllowed)
    }

    // MARK: Decisions

    private static let routes = [
        AuthorizerFixture.route("secret"), AuthorizerFixture.route("narrow", clients: ["ci"]),
    ]

    private static func head(_ path: String, _ field: String = "X: y") -> String {
        "GET \(path) HTTP/1.1\r\nHost: localhost\r\n\(field)\r\n\r\n"
    }

    private static let laptop = "Authorization: Bearer laptop-token"

    @Test(arguments: [
        // Another route's client, which is known.
        ("/narrow", laptop, true, "This client may not use the route narrow."),
        ("/nowhere", laptop, true, "No route matches. Known paths: /secret, /narrow"),
        // Nobody.
        ("/narrow", "X: y", false, "Send a client token in Authorization or Proxy-Authorization (access.clients)."),
        ("/nowhere", "X: y", false, "No route matches."),
        ("/secret/../x", "X: y", false, "The path has a dot segment (. or ..)."),
    ])
    func aRefusalSaysWhetherItMayNameThings(_ path: String, _ field: String, _ discloses: Bool, _ detail: String) throws
    {
        let fixture = AuthorizerFixture(Self.routes, clients: ["laptop", "ci"], requireClient: .false)
        let refusal = try #require(fixture.refusal(Self.head(path, field)))
        #expect(refusal.disclosesNames == discloses)
        #expect(refusal.problem.detail == detail)
    }

    @Test(
        arguments: [
            ([], "X: y", .loopback, true), ([], "X: y", .unix, true), (["laptop"], "X: y", .loopback, false),
            (["laptop"], laptop, .loopback, true), (["laptop"], laptop, .network, true),
            (["laptop"], "X: y", .unix, false),
        ] as [([String], String, ConnectionContext.Reach, Bool)]
    )
    func anAdmissionSaysItForLaterRefusals(
        _ clients: [String],
        _ field: String,
        _ reach: ConnectionContext.Reach,
        _ discloses: Bool
    ) throws {
        let fixture = AuthorizerFixture(Self.routes, clients: clients, requireClient: .false)
        #expect(try #require(fixture.admission(Self.head("/secret", field), on: reach)).disclosesNames == discloses)
    }

    @Test func withoutClientsALoopbackListenerNamesThePaths() throws {
        let refusal = try #require(AuthorizerFixture(Self.routes).refusal(Self.head("/nowhere")))
        #expect(refusal.disclosesNames)
        #expect(refusal.problem.detail.contains("/secret"))
        let evil = "GET /secret HTTP/1.1\r\nHost: evil.example\r\n\r\n"
        #expect(try #require(AuthorizerFixture(Self.routes, clients: ["ci"]).refusal(evil)).disclosesNames == false)
    }

    // MARK: Problems

    /// What is said about the request alone, with keys of `access` and `limits` at the most.
    private static let unchanged: Set<ProblemKind> = [
        .clientLimitReached,
        .clientAuthRequired, .proxyAuthRequired, .engineAuthRequired, .adminAuthRequired, .misdirected, .originRefused,
        .requestRefused,
        .methodRefused,
        .contentTooLarge, .targetTooLong, .fieldsTooLarge, .versionNotSupported, .loop,
    ]

    @Test(arguments: ProblemKind.allCases)
    func aProblemLosesWhatNamesTheConfiguration(_ kind: ProblemKind) {
        let problem = GatewayProblem(
            kind,
            "The route box, its credential campus, https://token.example and /usr/bin/token failed.",
            cause: GatewayProblem.Cause(code: "invalid_grant", httpStatus: 400),
            retryAfter: .seconds(3),
            command: "authgateway login campus",
            hopError: .nameNotResolved,
            nextHop: "token.example"
        )
        let shown = problem.withoutNames
        #expect(shown.kind == kind && shown.retryAfter == .seconds(3) && shown.hopError == .nameNotResolved)
        #expect(shown.command == nil && shown.nextHop == nil)
        #expect((shown.detail == problem.detail) == Self.unchanged.contains(kind))
        let isAboutClient = kind == .clientAuthRequired || kind == .proxyAuthRequired
        #expect((shown.cause != nil) == isAboutClient)
        guard !Self.unchanged.contains(kind) else { return }
        let texts = [
            ProblemDocument.json(shown, requestID: "r1"), ProblemDocument.text(shown, requestID: "r1"),
            shown.proxyStatusError,
        ]
        for text in texts {
            for name in ["box", "campus", "token.example", "/usr/bin"] { #expect(!text.contains(name)) }
        }
    }
}
