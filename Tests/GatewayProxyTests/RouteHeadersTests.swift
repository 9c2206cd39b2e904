import GatewayHTTP
import Synchronization
import Testing

@testable import GatewayProxy
@testable import GatewayTokens

/// Fields that a route sets or removes, judged by what reaches the origin.
@Suite(.timeLimit(.minutes(5)))
struct RouteHeadersTests {
    private func seen(
        _ headers: RoutePlan.Headers,
        source: (any CredentialSource)? = nil,
        asUser: String? = nil,
        owned: [String] = [],
        sending fields: String...
    ) async throws -> (status: String, head: String?) {
        let origin = try RawOrigin.answering()
        let request = (["GET /api/x HTTP/1.1", "Host: localhost"] + fields).joined(separator: "\r\n") + "\r\n\r\n"
        let user = asUser.map { ActingUser(id: $0, field: UserField(name: "As-User", advice: "")) }
        func configure(_ route: inout RoutePlan) { (route.headers, route.asUser) = (headers, user) }
        let status = Mutex("")
        try await withProxy(origin, source: source, ownedFields: owned, route: configure) { proxy in
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

    @Test func aFieldThatTheStrategyOwnsIsWithheldFromTheUpstream() async throws {
        let source = ScriptedSource()
        let (_, head) = try await seen(RoutePlan.Headers(), source: source, owned: ["As-User"], sending: "as-user: 1")
        #expect(head?.lowercased().contains("user: 1") == false)
    }

    @Test func aLookAlikeOfAFieldThatTheStrategyOwnsIsRefused() async throws {
        let source = ScriptedSource()
        let (status, head) = try await seen(
            RoutePlan.Headers(),
            source: source,
            owned: ["As-User"],
            sending: "AS_USER: 1"
        )
        #expect(status == "400")
        #expect(head == nil)
    }

    @Test func aFieldThatNoStrategyOwnsIsForwarded() async throws {
        let (_, head) = try await seen(RoutePlan.Headers(), source: ScriptedSource(), sending: "as-user: 1")
        #expect(values("As-User", head) == ["1"])
    }

    // MARK: Where a request came from

    private static let forwarded = [
        "Forwarded: for=192.0.2.1", "X-Forwarded-For: 192.0.2.1", "x-forwarded-host: theirs.example",
        "X-Forwarded-Port: 1", "X-Forwarded-Prefix: /theirs", "X-Forwarded-Proto: https", "X-Real-IP: 192.0.2.1",
    ]

    @Test(arguments: ForwardedPolicy.names)
    func eachOfTheFieldsIsRecognized(_ name: String) { #expect(FieldKind.isForwarded(Array(name.utf8))) }

    private func seen(_ policy: ForwardedPolicy?, sending more: [String] = forwarded) async throws -> String? {
        let origin = try RawOrigin.answering()
        let request = (["GET /api/x HTTP/1.1", "Host: localhost"] + more).joined(separator: "\r\n") + "\r\n\r\n"
        try await withProxy(origin, route: { if let policy { $0.headers.forwarded = policy } }) {
            _ = try $0.exchange(request)
        }
        return origin.requests.first
    }

    @Test func whereARequestCameFromIsPassedOnAsTheClientSaysIt() async throws {
        let head = try await seen(.pass)
        for line in Self.forwarded { #expect(head?.contains("\r\n\(line)\r\n") == true, "\(line)") }
        #expect(try await seen(.pass, sending: [])?.lowercased().contains("forwarded") == false)
    }

    /// `nil` is a route that says nothing of it.
    @Test(arguments: [ForwardedPolicy.remove, nil])
    func whereARequestCameFromIsKeptBack(_ policy: ForwardedPolicy?) async throws {
        let head = try await seen(policy)
        #expect(head?.hasPrefix("GET ") == true)
        #expect(head?.lowercased().contains("forwarded") == false)
        #expect(values("X-Real-IP", head) == [])
    }

    @Test func theGatewayCanSayWhereARequestCameFrom() async throws {
        let head = try await seen(.replace)
        #expect(values("Forwarded", head) == [#"for=127.0.0.1;host="localhost";proto=http"#])
        #expect(values("X-Forwarded-For", head) == ["127.0.0.1"])
        #expect(values("X-Forwarded-Host", head) == ["localhost"])
        #expect(values("X-Forwarded-Proto", head) == ["http"])
        for name in ["X-Forwarded-Port", "X-Forwarded-Prefix", "X-Real-IP"] { #expect(values(name, head) == []) }
    }

    @Test func theGatewayCanAddItself() async throws {
        let head = try await seen(.append)
        #expect(values("Forwarded", head) == ["for=192.0.2.1", #"for=127.0.0.1;host="localhost";proto=http"#])
        #expect(values("X-Forwarded-For", head) == ["192.0.2.1", "127.0.0.1"])
        #expect(values("X-Forwarded-Host", head) == ["theirs.example"])
        #expect(values("X-Forwarded-Proto", head) == ["https"])
    }

    @Test func aLookAlikeOfWhatTellsIsRefused() async throws {
        #expect(try await seen(.replace, sending: ["X_Forwarded_For: 192.0.2.1"]) == nil)
    }

    @Test func addressesAreWrittenAsTheirGrammarWantsThem() {
        let lines = ForwardedPolicy.replace.lines(client: "2001:db8::7", host: "[::1]:8080", isTLS: true)
        #expect(lines.hasPrefix(#"Forwarded: for="[2001:db8::7]";host="[::1]:8080";proto=https"# + "\r\n"))
        #expect(lines.contains("X-Forwarded-For: 2001:db8::7\r\n"))
        let mapped = ForwardedPolicy.append.lines(client: "::ffff:192.0.2.7", host: "x", isTLS: false)
        #expect(mapped.contains("for=192.0.2.7;") && mapped.contains("X-Forwarded-For: 192.0.2.7\r\n"))
        let fromSocket = ForwardedPolicy.append.lines(client: nil, host: "", isTLS: false)
        #expect(fromSocket == "Forwarded: for=unknown;proto=http\r\n")
    }

    @Test func aTrailerDoesNotSayWhereARequestCameFrom() async throws {
        let origin = try RawOrigin.answering(contentThrough: "X-Other: kept\r\n\r\n")
        try await withProxy(origin, route: { $0.headers.forwarded = .append }) { proxy in
            let answer = try proxy.exchange(
                "POST /api/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                    + "1\r\na\r\n0\r\nX-Forwarded-For: mine\r\nX-Other: kept\r\n\r\n"
            )
            #expect(answer.head.hasPrefix("HTTP/1.1 200 "))
        }
        #expect(origin.requests.count == 1)
        #expect(origin.requests.first?.hasSuffix("\r\n\r\n1\r\na\r\n0\r\nX-Other: kept\r\n\r\n") == true)
    }

    @Test func trailersDoNotBringItBack() async throws {
        let origin = try RawOrigin.answering(contentThrough: "X-Other: kept\r\n\r\n")
        let headers = set("X-Tenant", "ours")
        try await withProxy(origin, route: { $0.headers = headers }) { proxy in
            let answer = try proxy.exchange(
                "POST /api/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTrailer: X-Tenant\r\n\r\n"
                    + "1\r\na\r\n0\r\nX-Tenant: mine\r\nX-Other: kept\r\n\r\n"
            )
            #expect(answer.head.hasPrefix("HTTP/1.1 200 "))
        }
        #expect(origin.requests.count == 1)
        #expect(origin.requests.first?.hasSuffix("\r\n\r\n1\r\na\r\n0\r\nX-Other: kept\r\n\r\n") == true)
    }
}
