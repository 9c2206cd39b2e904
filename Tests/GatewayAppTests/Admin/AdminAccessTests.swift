import GatewayHTTP
import Testing

@testable import GatewayApp
@testable import GatewayProxy

@Suite("Who may do what on the admin listener", .timeLimit(.minutes(1)))
struct AdminAccessTests {
    private typealias Client = AccessPlan.Client

    private static let users = [
        AdminUser(role: .viewer, proofs: Client(name: "watcher", proof: .token(Secret("watcher-token")))),
        AdminUser(
            role: .operator,
            proofs: Client(
                name: "alice",
                tokens: [.token(Secret("alice-token"))],
                certificate: .exactly(.dns("alice.example.com"))
            )
        ),
    ]

    private static func evidence(_ token: String?, _ host: String? = nil) -> AdminAuthorizer.Evidence {
        AdminAuthorizer(adminToken: Secret("admin-token"), users: users) { $0 }
            .evidence(presenting: token.map { Array($0.utf8) }, peer: host.map { PeerIdentity([.dns($0)]) })
    }

    struct Case: Sendable, CustomTestStringConvertible {
        var token: String?
        var host: String?
        /// The kind of the refusal; nil where the person may.
        let viewing: ProblemKind?
        let operating: ProblemKind?
        var testDescription: String { "\(token ?? "-") \(host ?? "-")" }
    }

    @Test(arguments: [
        Case(viewing: .adminAuthRequired, operating: .adminAuthRequired),
        Case(token: "wrong", viewing: .adminAuthRequired, operating: .adminAuthRequired),
        Case(token: "", viewing: .adminAuthRequired, operating: .adminAuthRequired),
        Case(token: "admin-token", viewing: nil, operating: nil),
        Case(token: "watcher-token", viewing: nil, operating: .routeForbidden),
        Case(token: "alice-token", viewing: nil, operating: nil),
        Case(host: "alice.example.com", viewing: nil, operating: nil),
        Case(host: "bob.example.com", viewing: .adminAuthRequired, operating: .adminAuthRequired),
        Case(token: "alice-token", host: "alice.example.com", viewing: nil, operating: nil),
        Case(token: "wrong", host: "alice.example.com", viewing: nil, operating: nil),
        Case(
            token: "watcher-token",
            host: "alice.example.com",
            viewing: .adminAuthRequired,
            operating: .adminAuthRequired
        ),
    ])
    func whoMay(_ test: Case) {
        let authorizer = AdminAuthorizer(adminToken: Secret("admin-token"), users: Self.users) { $0 }
        let evidence = Self.evidence(test.token, test.host)
        #expect(authorizer.refusal(of: evidence, needing: .viewer)?.kind == test.viewing)
        #expect(authorizer.refusal(of: evidence, needing: .operator)?.kind == test.operating)
    }

    @Test("a wrong token is told from a missing one (RFC 6750 section 3.1)")
    func aWrongTokenIsSaidToBe() {
        let authorizer = AdminAuthorizer(adminToken: Secret("admin-token"), users: Self.users) { $0 }
        func code(_ token: String?) -> String? {
            authorizer.refusal(of: Self.evidence(token), needing: .viewer)?.cause?.code
        }
        #expect(code("wrong") == "invalid_token" && code(nil) == nil)
    }
}
