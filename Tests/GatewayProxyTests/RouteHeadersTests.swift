import GatewayCore
import Synchronization
import Testing

/// Fields that a route sets or removes, judged by what reaches the origin.
@Suite struct RouteHeadersTests {
    private func seen(
        _ headers: RoutePlan.Headers,
        source: (any CredentialSource)? = nil,
        asUser: String? = nil,
        sending fields: String...
    ) async throws -> (status: String, head: String?) {
        let origin = try RawOrigin.answering()
        let request = (["GET /api/x HTTP/1.1", "Host: localhost"] + fields).joined(separator: "\r\n") + "\r\n\r\n"
        func configure(_ route: inout RoutePlan) { (route.headers, route.asUser) = (headers, asUser) }
        let status = Mutex("")
        try await withProxy(origin, source: source, route: configure) { proxy in
            let head = try proxy.exchange(request).head
            status.withLock { $0 = String(head.dropFirst(9).prefix(3)) }
        }
        return (status.withLock { $0 }, origin.requests.first)
    }

    private func set(_ name: String, _ value: String) -> RoutePlan.Headers {
        RoutePlan.Headers(set: [Injection.Field(name: name, value: Secret(value))])
    }

    private func values(_ name: String, _ head: String?) -> [String] {
        (head ?? "").split(separator: "\r\n").filter { $0.lowercased().hasPrefix("\(name.lowercased()):") }
            .map { String($0.dropFirst(name.count + 2)) }
    }

    @Test(arguments: [false, true])
    func whatIsSetArrivesOnceAndInTheClientsPlace(_ hasCredential: Bool) async throws {
        let source = hasCredential ? ScriptedSource() : nil
        let (_, head) = try await seen(
            set("X-Tenant", "ours"),
            source: source,
            sending: "x-tenant: mine",
            "X-TENANT: mine",
            "X-Other: kept",
            "Connection: x-tenant"
        )
        #expect(values("X-Tenant", head) == ["ours"])
        #expect(values("X-Other", head) == ["kept"])
        #expect(values("Authorization", head) == (hasCredential ? ["Bearer token-1"] : []))
    }

    @Test func aNameWithAnUnderscoreIsReplacedToo() async throws {
        let (status, head) = try await seen(set("X_Tenant", "ours"), sending: "x_tenant: mine", "X-Tenant: mine")
        #expect(status == "200")
        #expect(values("X_Tenant", head) == ["ours"])
        #expect(values("X-Tenant", head) == [])
    }

    @Test(arguments: [
        RoutePlan.Headers(set: [Injection.Field(name: "X-Tenant", value: Secret("ours"))]),
        RoutePlan.Headers(remove: ["X-Tenant"]),
    ])
    func aLookAlikeIsRefused(_ headers: RoutePlan.Headers) async throws {
        let (status, head) = try await seen(headers, sending: "X_Tenant: mine")
        #expect(status == "400")
        #expect(head == nil)
    }

    @Test func whatIsRemovedDoesNotArrive() async throws {
        let headers = RoutePlan.Headers(remove: ["Cookie", "Authorization", "x_debug"])
        let (status, head) = try await seen(
            headers,
            sending: "Cookie: a=b",
            "Authorization: Basic bWluZQ==",
            "X_Debug: 1",
            "x-debug: 1",
            "X-Kept: yes"
        )
        #expect(status == "200")
        for name in ["Cookie", "Authorization", "X_Debug", "X-Debug"] { #expect(values(name, head) == []) }
        #expect(values("X-Kept", head) == ["yes"])
    }

    @Test func whatTheCredentialBringsComesFirst() async throws {
        let field = Injection.Field(name: "X_Key", value: Secret("key"))
        let source = FixedCredentialSource(name: "key", strategy: "header", injection: Injection(fields: [field]))
        let (_, head) = try await seen(set("x-key", "mine"), source: source, sending: "X-Key: mine")
        #expect(values("X_Key", head) == ["key"])
        #expect(values("X-Key", head) == [])
    }

    @Test func aPinnedUserIsTheOnlyOneWhateverTheStrategy() async throws {
        let (_, head) = try await seen(
            RoutePlan.Headers(),
            source: ScriptedSource(),
            asUser: "42",
            sending: "as-user: 1"
        )
        #expect(values("As-User", head) == ["42"])
    }

    @Test func trailersDoNotBringItBack() async throws {
        let origin = try RawOrigin.answering()
        let headers = set("X-Tenant", "ours")
        try await withProxy(origin, route: { $0.headers = headers }) { proxy in
            let answer = try proxy.exchange(
                "POST /api/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTrailer: X-Tenant\r\n\r\n"
                    + "1\r\na\r\n0\r\nX-Tenant: mine\r\n\r\n"
            )
            #expect(answer.head.hasPrefix("HTTP/1.1 "))
            #expect(origin.requests.allSatisfy { !$0.contains("mine") })
        }
    }
}
