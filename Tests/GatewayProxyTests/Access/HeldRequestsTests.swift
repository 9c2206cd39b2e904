import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("Requests that wait for an approval", .timeLimit(.minutes(1)))
struct HeldRequestsTests {
    private static let start = MonotonicTime(nanoseconds: 1_000)

    private static func request(
        _ id: String = "a-1",
        client: String? = "agent",
        route: String = "api",
        method: String = "POST",
        url: String = "https://api.example.com/deploy",
        body: String = "{}",
        at time: MonotonicTime = start
    ) -> HeldRequest {
        let bytes = Array(body.utf8)
        return HeldRequest(
            id: id,
            subject: HeldRequest.Subject(client: client, route: route, method: method, url: url, digest: bytes),
            body: bytes.span,
            heldAt: time
        )
    }

    // MARK: Decisions

    @Test func anApprovalCountsOnce() {
        var table = HeldRequests()
        let request = Self.request()
        #expect(table.hold(request) == nil)
        #expect(table.release(request.id, request.subject, at: Self.start) == nil, "nobody has approved it")
        #expect(table.decide(request.id, approver: "alice", at: Self.start) == request)
        #expect(table.waiting(at: Self.start).isEmpty)
        #expect(table.release(request.id, request.subject, at: Self.start) == "alice")
        #expect(table.release(request.id, request.subject, at: Self.start) == nil)
        #expect(table.decide(request.id, approver: "alice", at: Self.start) == nil)
        #expect(table.leave(request.id) == nil)
    }

    @Test(arguments: [
        request(client: "other"), request(client: nil), request(route: "web"), request(method: "PUT"),
        request(url: "https://api.example.com/deploy?force=1"), request(body: "[]"),
    ])
    func anApprovalIsForExactlyOneRequest(_ other: HeldRequest) {
        var table = HeldRequests()
        let request = Self.request()
        _ = table.hold(request)
        _ = table.decide(request.id, approver: "alice", at: Self.start)
        #expect(table.release(request.id, other.subject, at: Self.start) == nil)
        #expect(table.release(request.id, request.subject, at: Self.start) == "alice")
    }

    @Test func anApprovalIsForOneIDOfTwoThatAreTheSame() {
        var table = HeldRequests()
        let (first, second) = (Self.request("a-1"), Self.request("a-2"))
        _ = (table.hold(first), table.hold(second))
        _ = table.decide("a-1", approver: "alice", at: Self.start)
        #expect(table.release("a-2", second.subject, at: Self.start) == nil)
        #expect(table.waiting(at: Self.start) == [second])
    }

    @Test func whatIsDeniedIsNotSent() {
        var table = HeldRequests()
        let request = Self.request()
        _ = table.hold(request)
        #expect(table.decide(request.id, approver: nil, at: Self.start) == request)
        #expect(table.decide(request.id, approver: "alice", at: Self.start) == nil)
        #expect(table.release(request.id, request.subject, at: Self.start) == nil)
        #expect(table.leave(request.id) == nil, "its denial is told already")
    }

    @Test func nothingIsDecidedOrSentBehindTheDeadline() {
        let before = Self.start + HeldRequest.patience - .nanoseconds(1)
        let after = Self.start + HeldRequest.patience
        var table = HeldRequests()
        let request = Self.request()
        _ = table.hold(request)
        #expect(table.waiting(at: before) == [request] && table.waiting(at: after).isEmpty)
        #expect(table.decide(request.id, approver: "alice", at: after) == nil)
        #expect(table.decide(request.id, approver: "alice", at: before) == request)
        #expect(table.release(request.id, request.subject, at: after) == nil)
        #expect(table.leave(request.id) == request)
    }

    @Test func whoHasLeftCannotBeApproved() {
        var table = HeldRequests()
        let request = Self.request()
        _ = table.hold(request)
        #expect(table.leave(request.id) == request)
        #expect(table.decide(request.id, approver: "alice", at: Self.start) == nil)
        #expect(table.leave(request.id) == nil)
    }

    @Test func aGatewayThatStopsSendsNothing() {
        var table = HeldRequests()
        let request = Self.request()
        _ = table.hold(request)
        _ = table.decide(request.id, approver: "alice", at: Self.start)
        table.close()
        #expect(table.release(request.id, request.subject, at: Self.start) == nil)
        #expect(table.hold(Self.request("a-2")) == .stopping)
    }

    // MARK: Bounds

    @Test func aClientHoldsNoMoreThanItsShare() {
        var table = HeldRequests(
            bounds: .init(requests: 3, requestsPerClient: 2, bytes: 1 << 20, bytesPerClient: 1 << 20)
        )
        #expect(table.hold(Self.request("a-1")) == nil && table.hold(Self.request("a-2")) == nil)
        #expect(table.hold(Self.request("a-3")) == .client)
        #expect(table.hold(Self.request("a-4", client: nil)) == nil)
        #expect(table.hold(Self.request("a-5", client: "other")) == .all)
        // Also while one is approved and not sent yet.
        _ = table.decide("a-1", approver: "alice", at: Self.start)
        #expect(table.hold(Self.request("a-6")) == .client)
        _ = table.leave("a-1")
        #expect(table.hold(Self.request("a-7")) == nil)
    }

    @Test func whatIsHeldIsBoundedInBytes() {
        let body = String(repeating: "x", count: 20_000)
        let one = Self.request(body: body).bytes
        #expect(one > 20_000)
        let bounds = HeldRequests.Bounds(requests: 9, requestsPerClient: 9, bytes: 2 * one, bytesPerClient: one)
        var table = HeldRequests(bounds: bounds)
        #expect(table.hold(Self.request("a-1", body: body)) == nil)
        #expect(table.hold(Self.request("a-2")) == .client)
        #expect(table.hold(Self.request("a-3", client: "other", body: body)) == nil)
        #expect(table.hold(Self.request("a-4", client: "third")) == .all)
        _ = table.leave("a-1")
        #expect(table.hold(Self.request("a-5", client: "third")) == nil)
    }

    /// Each is a row of the audit log.
    @Test func aClientThatComesAndLeavesIsSlowedDown() {
        var table = HeldRequests(bounds: .init(perMinute: 3))
        func hold(_ client: String?, after seconds: Int) -> HeldRequests.Refusal? {
            let refusal = table.hold(Self.request(client: client, at: Self.start + .seconds(seconds)))
            _ = table.leave("a-1")
            return refusal
        }
        for second in 0..<3 { #expect(hold("agent", after: second) == nil) }
        #expect(hold("agent", after: 59) == .pace && hold("other", after: 59) == nil && hold(nil, after: 59) == nil)
        #expect(hold("agent", after: 60) == nil)
        #expect(HeldRequests.Refusal.pace.problem().status == 429)
    }

    @Test func theLongestBodyThatCanBeCollectedCanBeHeld() {
        // The maximum of limits.replay_body_bytes, and the most that each byte of the text can take.
        let bounds = HeldRequests.Bounds()
        #expect(bounds.bytesPerClient > (16 << 20) + 12 * HeldRequest.maximumShown + (64 << 10))
        #expect(HeldRequests.Refusal.client.problem().status == 429 && HeldRequests.Refusal.all.problem().status == 503)
    }

    // MARK: Text

    @Test(arguments: [
        ("a\nb", "a\nb"), ("\u{1B}[2J", "\\u{1b}[2J"), ("a\r\nb\t", "a\\u{d}\nb\\u{9}"),
        ("\u{202E}evil", "\\u{202e}evil"),
        ("\u{85}\u{2028}\u{200B}", "\\u{85}\\u{2028}\\u{200b}"), ("<b>&\"", "<b>&\""), ("ä\u{0}", "ä\\u{0}"),
    ])
    func onlyLineBreaksControlATerminal(_ body: String, _ text: String) {
        #expect(Self.request(body: body).text == text)
    }

    @Test func whatIsNotShownIsCounted() {
        let long = Self.request(body: String(repeating: "x", count: HeldRequest.maximumShown + 7))
        #expect(long.shownBytes == HeldRequest.maximumShown && long.bodyBytes == HeldRequest.maximumShown + 7)
        #expect(long.text.utf8.count == HeldRequest.maximumShown)
        let bytes: [UInt8] = [0xFF, 0x41]
        let request = HeldRequest(id: "a-1", subject: long.subject, body: bytes.span, heldAt: Self.start)
        #expect(request.text == "\u{FFFD}A")
    }

    // MARK: Calls

    private func calls(_ body: String) throws(RPCFault) -> HeldCalls? {
        let bytes = Array(body.utf8)
        let rules = [Self.rule(["drop*"], methods: ["prompts/get", "x/*"])]
        return try HeldCalls(bytes.span, of: rules)
    }

    private static func rule(_ tools: [String], methods: [String] = []) -> ToolRule {
        ToolRule(
            tools: tools.compactMap { ToolRule.NamePattern($0) },
            methods: methods.compactMap { ToolRule.NamePattern($0) }
        )
    }

    private static func message(_ method: String, id: Int? = 1, _ parameters: String = "{}") -> String {
        let id = id.map { "\"id\":\($0)," } ?? ""
        return "{\"jsonrpc\":\"2.0\",\(id)\"method\":\"\(method)\",\"params\":\(parameters)}"
    }

    @Test(arguments: ["initialize", "tools/list", "ping", "notifications/initialized"])
    func whatIsUsualIsNotHeld(_ method: String) throws {
        try #expect(calls(Self.message(method)) == nil)
        try #expect(calls("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}") == nil)
    }

    @Test func whatNoRuleWithApproveNamesIsNotHeld() throws {
        try #expect(calls(Self.message("tools/call", "{\"name\":\"search\"}")) == nil)
        try #expect(calls(Self.message("prompts/other")) == nil)
    }

    @Test func aCallIsHeldWithAllOfItsBatch() throws {
        let call = Self.message("tools/call", id: 2, "{\"name\":\"drop\\u001b\",\"arguments\":{}}")
        try #expect(calls(call)?.names == ["drop\\u{1b}"])
        let batch = try #require(try calls("[\(Self.message("ping")),\(call),\(Self.message("prompts/get", id: 3))]"))
        #expect(batch.names == ["drop\\u{1b}", "prompts/get"])
        let refusal = batch.refusal("No.")
        #expect(refusal.status == 200 && refusal.body.hasPrefix("[{\"jsonrpc\":\"2.0\",\"id\":1,\"error\""))
        #expect(refusal.body.contains("\"id\":3"))
        try #expect(calls(call)?.refusal("No.").body.hasPrefix("{\"jsonrpc\":\"2.0\",\"id\":2,\"error\"") == true)
        try #expect(calls(Self.message("x/y", id: nil))?.refusal("No.").status == 403)
    }

    @Test func aBodyThatIsNoMessageIsNotHeld() {
        #expect(throws: RPCFault.notJSON) { try calls("no") }
    }
}
