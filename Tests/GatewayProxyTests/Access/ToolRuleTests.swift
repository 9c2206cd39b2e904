import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("Rules for tools", .timeLimit(.minutes(5)))
struct ToolRuleTests {
    private static func patterns(_ texts: [String]) -> [ToolRule.NamePattern] { texts.compactMap { .init($0) } }

    private static let rule = ToolRule(
        tools: patterns(["search", "read_*"]),
        methods: patterns(["prompts/get", "resources/*"])
    )

    private static let fields = "Content-Type: application/json\r\n"

    private static func call(_ tool: String, id: String = "7") -> String {
        #"{"jsonrpc":"2.0","id":\#(id),"method":"tools/call","params":{"name":"\#(tool)"}}"#
    }

    /// - Returns: The refusal of the head, or of the body; nil if both pass.
    private static func judge(
        _ body: String,
        _ fields: String = "",
        method: String = "POST",
        by rule: ToolRule = rule
    ) throws -> GatewayProblem? {
        var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
        let framing = body.isEmpty ? "" : "Content-Length: \(body.utf8.count)\r\n"
        let bytes = Array("\(method) /mcp HTTP/1.1\r\nHost: a\r\n\(framing)\(Self.fields)\(fields)\r\n".utf8)
        guard case .head = decoder.decode(bytes.span) else {
            Issue.record("The head is not read.")
            return nil
        }
        if let problem = rule.refusal(ofHead: decoder.head, bytes.span, route: "tools") { return problem }
        guard rule.source == .body, ToolRule.mayCall(decoder.head, bytes.span) else { return nil }
        return rule.refusal(ofBody: Array(body.utf8).span, decoder.head, bytes.span, route: "tools")
    }

    // MARK: Names

    @Test(arguments: [
        ("search", "search", true), ("search", "Search", false), ("search", "searches", false),
        ("read_*", "read_", true),
        ("read_*", "read_file", true), ("read_*", "read", false), ("*", "", true), ("*", "anything", true),
        ("é", "e\u{301}", false),
    ])
    func namesAreComparedByteByByte(_ pattern: String, _ name: String, _ matches: Bool) throws {
        #expect(try #require(ToolRule.NamePattern(pattern)).matches(Array(name.utf8)) == matches)
    }

    @Test(arguments: ["", "a*b", "**", "*a"])
    func aStarIsAtTheEnd(_ text: String) { #expect(ToolRule.NamePattern(text) == nil) }

    // MARK: What passes

    @Test(arguments: [
        call("search"), call("read_file"), call("search").replacing("tools/call", with: #"tools\u002fcall"#),
        #"{"id":1,"method":"initialize","params":{}}"#, #"{"id":1,"method":"server/discover"}"#,
        #"{"id":1,"method":"ping"}"#,
        #"{"id":1,"method":"tools/list"}"#, #"{"id":1,"method":"resources/templates/list"}"#,
        #"{"method":"notifications/initialized"}"#, #"{"id":1,"result":{}}"#, #"{"id":1,"error":{}}"#,
        #"{"id":1,"method":"prompts/get","params":{"name":"x"}}"#,
        #"{"id":1,"method":"resources/read","params":{"uri":"a:b"}}"#,
        "[\(call("search")),\(call("read_x")),{\"method\":\"notifications/x\"}]",
    ])
    func whatTheRuleTakesPasses(_ body: String) throws { #expect(try Self.judge(body) == nil) }

    @Test(arguments: ["GET", "DELETE", "HEAD", "OPTIONS"])
    func aRequestWithoutABodyCallsNothing(_ method: String) throws {
        #expect(try Self.judge("", method: method) == nil)
    }

    @Test(arguments: ["GET", "PUT", "DELETE", "QUERY"])
    func aBodyIsReadWhateverTheMethod(_ method: String) throws {
        #expect(try Self.judge(Self.call("delete"), method: method)?.kind == .routeForbidden)
        #expect(try Self.judge(Self.call("search"), method: method) == nil)
    }

    // MARK: What is refused

    @Test(arguments: ["delete", "Search", "search ", #"sear\u0063h\u0000"#])
    func anotherToolIsRefused(_ tool: String) throws {
        let problem = try #require(try Self.judge(Self.call(tool, id: #""a""#)))
        #expect(problem.kind == .routeForbidden && problem.status == 200)
        #expect(problem.detail.hasPrefix("The route tools does not allow the tool \""))
        let body = try #require(problem.rpc?.body)
        #expect(
            body.hasPrefix(
                #"{"jsonrpc":"2.0","id":"a","error":{"code":-32602,"message":"The gateway does not allow the tool \""#
            )
        )
        #expect(!body.contains("route"))
    }

    @Test(arguments: [
        "logging/setLevel", "completion/complete", "tools/call2", "TOOLS/CALL", "tools/Call", "prompts/getx", "",
        // With an id, this is no notification.
        "notifications/initialized", "notifications/x",
    ])
    func aMethodThatNoRuleNamesIsRefused(_ method: String) throws {
        let problem = try #require(try Self.judge(#"{"id":1,"method":"\#(method)"}"#))
        #expect(problem.kind == .routeForbidden && problem.rpc?.body.contains("-32601") == true)
    }

    @Test func aCallWithoutAnIDOrANameIsRefused() throws {
        let quiet = try #require(try Self.judge(#"{"method":"tools/call","params":{"name":"delete"}}"#))
        #expect(quiet.status == 400 && quiet.rpc?.body.contains("\"id\":null") == true)
        let nameless = try #require(try Self.judge(#"{"id":1,"method":"tools/call"}"#))
        #expect(nameless.kind == .routeForbidden && nameless.rpc?.body.contains("-32602") == true)
    }

    @Test func aBatchPassesOrFailsAsAWhole() throws {
        let batch = "[\(Self.call("search", id: "1")),\(Self.call("delete", id: "2")),{\"method\":\"notifications/x\"}]"
        let problem = try #require(try Self.judge(batch))
        let body = try #require(problem.rpc?.body)
        #expect(problem.status == 200 && problem.detail.contains("\"delete\""))
        #expect(
            body.hasPrefix("[{") && body.contains("\"id\":1,\"error\":{\"code\":-32600")
                && body.contains("\"id\":2,\"error\":{\"code\":-32602")
        )
        #expect(!body.contains("null"))
    }

    @Test(arguments: [
        ("", -32700), ("{", -32700), ("[]", -32600), (#"{"id":1,"method":"ping","method":"tools/call"}"#, -32600),
    ])
    func whatCannotBeJudgedIsRefused(_ body: String, _ code: Int) throws {
        let problem = try #require(try Self.judge(body))
        #expect(problem.kind == .requestRefused && problem.status == 400)
        #expect(problem.rpc?.body.hasPrefix("{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":\(code),") == true)
    }

    @Test(arguments: [
        "Content-Encoding: gzip\r\n", "Content-Encoding: identity, br\r\n", "Content_Encoding: gzip\r\n",
        "Content-Type: text/plain\r\n", "Content_Type: application/json\r\n",
    ])
    func anotherFormIsRefused(_ fields: String) throws {
        let problem = try #require(try Self.judge(Self.call("search"), fields))
        #expect(problem.kind == .requestRefused && problem.status == 400)
    }

    @Test(arguments: [
        ("application/json", true), ("Application/JSON; charset=utf-8", true),
        ("application/json;charset=\"UTF-8\"", true),
        ("application/json; charset=utf-16", false), ("application/json; charset=utf-8; charset=utf-7", false),
        ("text/json", false), ("application/x-www-form-urlencoded", false), ("", false),
    ])
    func onlyJSONInUTF8IsRead(_ type: String, _ passes: Bool) throws {
        var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
        let field = type.isEmpty ? "" : "Content-Type: \(type)\r\n"
        let bytes = Array("POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\(field)\r\n".utf8)
        guard case .head = decoder.decode(bytes.span) else {
            Issue.record("The head is not read.")
            return
        }
        #expect((Self.rule.refusal(ofHead: decoder.head, bytes.span, route: "tools") == nil) == passes)
    }

    @Test(arguments: [ToolRule.Source.body, .header])
    func aWebSocketIsRefused(_ source: ToolRule.Source) throws {
        var rule = Self.rule
        rule.source = source
        let fields = "Connection: upgrade\r\nUpgrade: websocket\r\n"
        #expect(try Self.judge("", fields, method: "GET", by: rule)?.kind == .routeForbidden)
    }

    // MARK: Fields and body

    @Test(arguments: [
        "", "Mcp-Method: tools/call\r\nMcp-Name: search\r\n", "mcp-name: =?base64?c2VhcmNo?=\r\n",
        "MCP-Protocol-Version: 2025-06-18\r\n",
    ])
    func fieldsThatAgreePass(_ fields: String) throws { #expect(try Self.judge(Self.call("search"), fields) == nil) }

    @Test(arguments: [
        "Mcp-Method: tools/list\r\n", "Mcp-Method: Tools/call\r\n", "Mcp-Name: read_x\r\n",
        "Mcp-Name: =?base64?cmVhZF94?=\r\n",
        "Mcp-Name: =?base64?c2VhcmNo\r\n", "Mcp-Name: =?base64?c2VhcmNp?=\r\n", "Mcp-Name: =?base64?%%?=\r\n",
        "Mcp-Name: =?base64?=\r\n",
        "Mcp-Name: search\r\nMcp-Name: search\r\n", "Mcp-Name: search\r\nMcp_Name: read_x\r\n",
        "Mcp_Method: tools/list\r\n",
    ])
    func fieldsThatDisagreeAreRefused(_ fields: String) throws {
        let problem = try #require(try Self.judge(Self.call("search"), fields))
        #expect(problem.kind == .requestRefused && problem.status == 400)
        #expect(problem.rpc?.body.contains("\"id\":7,\"error\":{\"code\":-32020,") == true)
    }

    @Test func theNameOfAResourceIsItsURI() throws {
        let body = #"{"id":1,"method":"resources/read","params":{"uri":"a:b","name":"c"}}"#
        #expect(try Self.judge(body, "Mcp-Name: a:b\r\n") == nil)
        #expect(try Self.judge(body, "Mcp-Name: c\r\n")?.rpc?.body.contains("-32020") == true)
    }

    @Test func aBatchHasNoFieldsOfOneCall() throws {
        #expect(
            try Self.judge("[\(Self.call("search"))]", "Mcp-Method: tools/call\r\n")?.rpc?.body.contains("-32020")
                == true
        )
    }

    // MARK: Fields alone

    private static let trusting = ToolRule(tools: patterns(["search", "read_*"]), source: .header)
    private static let version = "MCP-Protocol-Version: 2026-07-28\r\n"

    @Test(arguments: [
        "Mcp-Method: tools/call\r\nMcp-Name: search\r\n", "Mcp-Method: tools/list\r\n",
        "Mcp-Method: tools/call\r\nMcp-Name: =?base64?cmVhZF94?=\r\n",
    ])
    func fieldsAloneAreEnoughIfTheRuleSaysSo(_ fields: String) throws {
        #expect(try Self.judge("not read", Self.version + fields, by: Self.trusting) == nil)
    }

    private static let refused: [(fields: String, status: Int)] = [
        ("\(version)Mcp-Method: tools/call\r\nMcp-Name: delete\r\n", 403),
        ("\(version)Mcp-Method: tools/call\r\n", 400),
        ("\(version)Mcp-Method: tools/call\r\nMcp-Name: =?base64?%?=\r\n", 400),
        // "read_xy" with a bit that no encoder sets.
        ("\(version)Mcp-Method: tools/call\r\nMcp-Name: =?base64?cmVhZF94eR==?=\r\n", 400),
        ("\(version)Mcp-Method: logging/setLevel\r\n", 403),
        (version, 400),
        ("\(version)Mcp-Name: search\r\n", 400),
        ("\(version)Mcp-Method: tools/call\r\nMcp-Method: tools/list\r\nMcp-Name: search\r\n", 400),
        ("\(version)Mcp-Method: tools/call\r\nMcp-Name: search\r\nMcp_Name: delete\r\n", 400),
        ("Mcp-Method: tools/call\r\nMcp-Name: search\r\n", 400),
        ("MCP-Protocol-Version: 2025-11-25\r\nMcp-Method: tools/call\r\nMcp-Name: search\r\n", 400),
        ("MCP-Protocol-Version: zzzz\r\nMcp-Method: tools/call\r\nMcp-Name: search\r\n", 400),
        ("\(version)\(version)Mcp-Method: tools/call\r\nMcp-Name: search\r\n", 400),
    ]

    @Test(arguments: refused)
    func otherFieldsAreRefused(_ fields: String, _ status: Int) throws {
        let problem = try #require(try Self.judge("not read", fields, by: Self.trusting))
        #expect(problem.status == status && problem.rpc?.body.contains("\"id\":null") == true)
    }

    // MARK: Other rules of the route

    /// Whatever comes first, and however the path is written.
    @Test(arguments: ["/tools/a/mcp", "/tools/a%2Fmcp"], [0, 1])
    func aWiderRuleLiftsNoTools(_ path: String, _ place: Int) throws {
        let exact = try #require(PathPattern("/a/mcp"))
        var allow = [RoutePlan.Allow(methods: [], path: .all)]
        allow.insert(RoutePlan.Allow(methods: ["POST"], path: exact, tools: Self.trusting), at: place)
        let fixture = AuthorizerFixture([AuthorizerFixture.route("tools", allow: allow)])
        let fields = "\(Self.version)Mcp-Method: tools/call\r\nMcp-Name: "
        func refusal(_ line: String, _ fields: String) -> GatewayProblem? {
            fixture.refusal("\(line) HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\(fields)\r\n")?.problem
        }
        #expect(refusal("POST \(path)", "\(fields)delete\r\n") != nil)
        #expect(refusal("PUT \(path)", "\(fields)delete\r\n") != nil)
        #expect(refusal("POST /tools/a/mcp", "\(fields)search\r\n") == nil)
        #expect(refusal("POST /tools/a/other", "\(fields)delete\r\n") == nil)
        let upgrade = "GET \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
        #expect(fixture.refusal(upgrade) != nil)
    }

    // MARK: Reload

    @Test func aWiderRuleTakesWhatANarrowerOneTook() {
        let wider = ToolRule(tools: Self.rule.tools + Self.patterns(["x"]), methods: Self.rule.methods)
        #expect(wider.takesAll(of: Self.rule) && Self.rule.takesAll(of: Self.rule))
        #expect(!Self.rule.takesAll(of: wider) && !Self.rule.takesAll(of: nil))
    }
}
