import GatewayEvents
import GatewayHTTP
import NIOHTTP1
import Testing

@testable import GatewayApp
@testable import GatewayProxy

@Suite("Approvals on the admin listener", .timeLimit(.minutes(5)))
struct ApprovalPageTests {
    private static let users = [
        AdminUser(role: .viewer, proofs: AccessPlan.Client(name: "watcher", proof: .token(Secret("watcher-token")))),
        AdminUser(
            role: .operator,
            proofs: AccessPlan.Client(name: "alice", proof: .tokenSHA256(Array("alice-token".utf8)))
        ),
    ]

    static func request(_ body: String = "{}", calls: [String] = []) -> HeldRequest {
        let bytes = Array(body.utf8)
        return HeldRequest(
            id: "k3f9a01-2s",
            subject: HeldRequest.Subject(
                client: "agent",
                route: "api",
                method: "POST",
                url: "https://api.example.com/x?a=<i>",
                digest: [1, 171]
            ),
            place: "/x",
            calls: calls,
            body: bytes.span,
            heldAt: MonotonicTime(nanoseconds: 0)
        )
    }

    private static let now = MonotonicTime(nanoseconds: 5_500_000_000)

    private static func options(_ control: ScriptedControl) -> AdminOptions {
        let now = UnixTime(seconds: 0)
        var options = AdminOptions(control: control, token: Secret("admin-token"), metrics: { "" }, now: { now })
        options.users = { users }
        options.sha256 = { $0 }
        return options
    }

    private static func control(_ body: String = "<script>alert(1)</script>\u{1B}[2J") -> ScriptedControl {
        ScriptedControl(held: [HeldRequestStatus(request(body, calls: ["<b>deploy"]), at: now)])
    }

    @Test func whatWaitsIsForOperatorsAlone() async throws {
        try await withAdminServer(Self.options(Self.control())) { (port: Int) async throws in
            for (token, status) in [(nil, 401), ("wrong", 401), ("watcher-token", 403), ("alice-token", 200)] {
                let answer = try await askAdmin(.GET, "/api/approvals", port, token: token)
                #expect(answer.status.code == UInt(status), "\(token ?? "")")
                #expect(answer.text.contains("k3f9a01-2s") == (status == 200))
            }
            let page = try await askAdmin(.GET, "/approvals", port)
            #expect(page.status == .ok && !page.text.contains("k3f9a01-2s"))
            for token in ["", "wrong", "watcher-token"] {
                let refused = try await askAdmin(
                    .POST,
                    "/approvals",
                    port,
                    body: "token=\(token)&id=k3f9a01-2s&decision=approve"
                )
                #expect(refused.status == .unauthorized && !refused.text.contains("api.example.com"))
            }
        }
    }

    @Test func nothingOfTheRequestIsMarkup() async throws {
        try await withAdminServer(Self.options(Self.control())) { (port: Int) async throws in
            let page = try await askAdmin(.POST, "/approvals", port, body: "token=alice-token")
            #expect(page.status == .ok && page.policy?.contains("default-src 'none'") == true)
            #expect(page.text.contains("&lt;script&gt;alert(1)&lt;/script&gt;\\u{1b}[2J"))
            #expect(page.text.contains("&lt;b&gt;deploy") && page.text.contains("?a=&lt;i&gt;"))
            for piece in ["<script", "<b>", "<i>", "\u{1B}"] { #expect(!page.text.contains(piece)) }
            #expect(page.text.contains("01ab") && page.text.contains("<dt>Waiting</dt><dd>5 s; expires in 174 s"))
        }
    }

    @Test func aDecisionNamesWhoMadeIt() async throws {
        let control = Self.control()
        try await withAdminServer(Self.options(control)) { (port: Int) async throws in
            let form = "id=k3f9a01-2s&decision"
            _ = try await askAdmin(.POST, "/approvals", port, body: "token=alice-token&\(form)=approve")
            _ = try await askAdmin(.POST, "/approvals", port, body: "token=admin-token&\(form)=approve")
            _ = try await askAdmin(.POST, "/approvals", port, body: "token=alice-token&\(form)=deny")
            for decision in ["\(form)=x", "id=k3f9a01-2s"] {
                let page = try await askAdmin(.POST, "/approvals", port, body: "token=alice-token&\(decision)")
                #expect(page.text.contains("Choose Approve or Deny.") && page.text.contains("k3f9a01-2s"))
            }
            _ = try await askAdmin(.POST, "/api/approvals/k3f9a01-2s/approve", port, token: "alice-token")
            _ = try await askAdmin(.POST, "/api/approvals/k3f9a01-2s/approve", port, token: "admin-token")
        }
        let expected = ["approve alice", "approve -", "deny alice", "approve alice", "approve -"]
        #expect(control.performed == expected)
    }

    @Test(arguments: [("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site"), ("Origin", "null")])
    func anotherSiteDecidesNothing(_ field: String, _ value: String) async throws {
        let control = Self.control()
        try await withAdminServer(Self.options(control)) { (port: Int) async throws in
            let form = "token=alice-token&id=k3f9a01-2s&decision=approve"
            let page = try await askAdmin(.POST, "/approvals", port, fields: [(field, value)], body: form)
            let path = "/api/approvals/k3f9a01-2s/approve"
            let api = try await askAdmin(.POST, path, port, token: "alice-token", fields: [(field, value)])
            #expect(page.status == .forbidden && api.status == .forbidden)
        }
        #expect(control.performed.isEmpty)
    }

    // MARK: Who may

    @Test(arguments: [
        (AdminRole.operator, [AccessPlan.Client.Token.tokenSHA256([1])], false, true),
        (.operator, [], true, true), (.operator, [.tokenSHA256([1])], true, true),
        (.operator, [.token(Secret("a"))], false, false), (.operator, [.token(Secret("a"))], true, false),
        (.operator, [.tokenSHA256([1]), .token(Secret("a"))], false, false),
        (.viewer, [.tokenSHA256([1])], true, false),
    ])
    func onlyWhoeverOtherProgramsCannotReadMayApprove(
        _ role: AdminRole,
        _ tokens: [AccessPlan.Client.Token],
        _ hasCertificate: Bool,
        _ mayApprove: Bool
    ) {
        let name = hasCertificate ? CertificateName("alice.example.com") : nil
        let user = AdminUser(role: role, proofs: AccessPlan.Client(name: "alice", tokens: tokens, certificate: name))
        #expect(user.mayApprove == mayApprove)
    }

    // MARK: Events

    @Test func eventsHaveTheDigestAndNothingOfTheBody() {
        let request = Self.request("secret body", calls: ["deploy"])
        let events: [(HeldRequest.Event, TokenEvent.Name)] = [
            (.held, .requestHeld), (.released(approvedBy: "alice"), .requestReleased),
            (.expired, .requestExpired), (.dropped(reason: "locked"), .requestDropped),
        ]
        for (event, name) in events {
            let found = TokenEvent(event, of: request, at: UnixTime(seconds: 1))
            #expect(found.name == name && found.demand?.requestID == "k3f9a01-2s" && found.demand?.client == "agent")
            #expect(found.detail["body_sha256"] == "01ab" && found.detail["path"] == "/x")
            #expect(found.detail["user"] == (name == .requestReleased ? "alice" : nil))
            #expect(found.detail["reason"] == (name == .requestDropped ? "locked" : nil))
            #expect(!"\(found.detail)".contains("secret"))
        }
    }
}
