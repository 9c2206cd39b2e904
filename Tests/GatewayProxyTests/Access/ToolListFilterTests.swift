import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayProxy

@Suite("Answers to tools/list", .timeLimit(.minutes(5)))
struct ToolListFilterTests {
    private typealias Requests = ToolListFilter.Requests

    private static let rule = ToolRule(tools: ["search", "read_*"].compactMap { .init($0) })

    private static func answer(_ names: String...) -> String {
        let tools = names.map { #"{"name":"\#($0)"}"# }.joined(separator: ",")
        return #"{"jsonrpc":"2.0","id":7,"result":{"tools":[\#(tools)],"nextCursor":"c"}}"#
    }

    /// - Parameter size: Of the parts in which it comes.
    private static func shown(_ text: String, isStream: Bool, by size: Int = .max) throws -> String {
        let filter = ToolListFilter(rule, Requests(ids: ["7"]), isStream: isStream)
        var (rest, out) = (Array(text.utf8)[...], [UInt8]())
        while !rest.isEmpty {
            let part = Array(rest.prefix(size))
            rest = rest.dropFirst(part.count)
            try filter.take(part.span, into: &out)
        }
        try filter.end(into: &out)
        #expect(filter.isOver && filter.heldBytes == 0)
        return String(decoding: out, as: UTF8.self)
    }

    // MARK: JSON

    @Test(arguments: [1, 7, Int.max])
    func aBodyIsReadAsAWhole(_ size: Int) throws {
        let body = Self.answer("search", "delete", "read_x")
        #expect(try Self.shown(body, isStream: false, by: size) == Self.answer("search", "read_x"))
    }

    @Test(arguments: ["", " \n", "Accepted", "{ \"error\" : \"unauthorized\" }\n", answer("search")])
    func anotherBodyStaysAsItCame(_ body: String) throws { #expect(try Self.shown(body, isStream: false) == body) }

    @Test(arguments: ["<{>", "{", answer("search") + "{}", "\u{FEFF}" + answer("delete")])
    func whatIsNotJSONIsNotShown(_ body: String) {
        #expect(throws: RPCFault.self) { try Self.shown(body, isStream: false) }
    }

    // MARK: Events

    private static let events: [(String, String)] = [
        ("data: \(answer("delete", "search"))\n\n", "data: \(answer("search"))\n\n"),
        (
            "event: message\r\nid: 5\r\ndata:\(answer("delete"))\r\n\r\n",
            "data: \(answer())\nevent: message\r\nid: 5\r\n\r\n"
        ),
        ("data: \(answer("delete"))\r\r", "data: \(answer())\n\r"),
        // Data in several lines.
        (
            "data: [\ndata\ndata: \(answer("delete", "search"))\nretry: 5\ndata: ]\n\n",
            "data: [\ndata: \ndata: \(answer("search"))\ndata: ]\nretry: 5\n\n"
        ),
        // Some clients read an event that was cut off.
        ("data: \(answer("delete"))", "data: \(answer())\n"),
        ("\u{FEFF}data: \(answer("delete"))\n\n", "data: \(answer())\n\n"),
        (": \(answer("delete"))\n\ndata: \(answer("delete"))\n\n", ": \(answer("delete"))\n\ndata: \(answer())\n\n"),
    ]

    @Test(arguments: events, [1, 2, 3, Int.max])
    func theEventWithTheAnswerIsRewritten(_ event: (String, String), _ size: Int) throws {
        #expect(try Self.shown(event.0, isStream: true, by: size) == event.1)
        let others = "id: 1\ndata: {\"method\":\"notifications/x\"}\n\n:\r\n\r\n"
        #expect(
            try Self.shown(others + "data: \(Self.answer("delete"))\n\n", isStream: true, by: size).hasPrefix(others)
        )
    }

    @Test(
        arguments: [
            "", "\n", "\r\n\r\n\r\r\n", ":\r\n", "data", "data:", "event: endpoint\ndata: /messages?session=1\n\n",
            "data: {\"method\":\"notifications/x\"}\n\ndata: {\"id\":3,\"result\":{}}\r\n\r\n",
            "data: \(answer("search", "read_y"))\n\nid: 3\n\n", "data\n\ndata:\n\n", "datax: {\n\n", " data: {\n\n",
        ],
        [1, 2, Int.max]
    )
    func otherEventsStayAsTheyCame(_ events: String, _ size: Int) throws {
        #expect(try Self.shown(events, isStream: true, by: size) == events)
    }

    /// Each event leaves with its empty line, and each comment with its own.
    @Test func nothingThatIsWholeIsHeldBack() throws {
        let filter = ToolListFilter(Self.rule, Requests(), isStream: true)
        for part in ["data: {\"method\":\"a\"}\n\n", ": still here\r\n", ":\r", "\n", "data: {}\r\r", "\n"] {
            var out: [UInt8] = []
            try filter.take(Array(part.utf8).span, into: &out)
            #expect(String(decoding: out, as: UTF8.self) == part && filter.heldBytes == 0)
        }
        var out: [UInt8] = []
        try filter.take(Array("data: {\"a\":\n: between\r".utf8).span, into: &out)
        try filter.take(Array("\ndata: 5}\n\n".utf8).span, into: &out)
        #expect(String(decoding: out, as: UTF8.self) == ": between\r\ndata: {\"a\":\ndata: 5}\n\n")
    }

    @Test(arguments: ["data: {\n\n", "data: {}}\n\n", "data: \u{FEFF}{}\n\n", "data: {}\ndata: {}\n\n"])
    func anEventThatCannotBeReadIsNotShown(_ event: String) throws {
        let filter = ToolListFilter(Self.rule, Requests(ids: ["7"]), isStream: true)
        var out: [UInt8] = []
        #expect(throws: RPCFault.self) { try filter.take(Array("data: {}\n\n\(event)".utf8).span, into: &out) }
        #expect(String(decoding: out, as: UTF8.self) == "data: {}\n\n", "the events before it were shown")
        let error = String(decoding: filter.refuse("No."), as: UTF8.self)
        #expect(error == "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32603,\"message\":\"No.\"}}\n\n")
        try filter.take(Array("data: {}\n\n".utf8).span, into: &out)
        try filter.end(into: &out)
        #expect(out.count == "data: {}\n\n".utf8.count, "nothing follows")
    }

    @Test func howAStreamIsCutChangesNothing() {
        var random = SplitMix(seed: 1)
        let pieces = [
            "\n", "\r", "\r\n", "\n\n", "data", ":", " ", "{", "}", "x", "\u{FEFF}", "data: {}\n", ": c\n",
            "data: \(Self.answer("delete"))\n", "data: \(Self.answer("search", "delete"))\r\n\r\n",
        ]
        for _ in 0..<2_000 {
            let text = (0..<Int.random(in: 1...12, using: &random))
                .map { _ in pieces[Int.random(in: 0..<pieces.count, using: &random)] }.joined()
            let whole = try? Self.shown(text, isStream: true)
            for size in [1, 2, 5] { #expect((try? Self.shown(text, isStream: true, by: size)) == whole, "\(text)") }
            for data in Self.data(of: whole ?? "") { #expect(!data.contains("delete"), "\(text)") }
        }
    }

    /// The data of the events, as a client finds them.
    private static func data(of stream: String) -> [String] {
        var (lines, isBehindReturn) = ([""], false)
        for scalar in (stream.hasPrefix("\u{FEFF}") ? stream.dropFirst() : stream[...]).unicodeScalars {
            defer { isBehindReturn = scalar == "\r" }
            if scalar == "\n", isBehindReturn { continue }
            if scalar == "\n" || scalar == "\r" {
                lines.append("")
            } else {
                lines[lines.count - 1].unicodeScalars.append(scalar)
            }
        }
        return lines.split(separator: "")
            .map { event in
                event.filter { $0 == "data" || $0.hasPrefix("data:") }.map { $0.dropFirst(5) }.joined(separator: "\n")
            }
    }

    // MARK: Limit

    @Test(arguments: [false, true])
    func littleIsHeldBack(_ isStream: Bool) throws {
        let filter = ToolListFilter(Self.rule, Requests(), isStream: isStream)
        var out: [UInt8] = []
        let part = Array("data: {\"a\":1}\n".utf8) + Array(repeating: UInt8(ascii: "x"), count: 65_000)
        for _ in 0..<17 where !filter.isTooLong { try filter.take(part.span, into: &out) }
        #expect(filter.isTooLong && filter.heldBytes < ToolListFilter.maximumBytes + 2 * part.count && out.isEmpty)
        _ = filter.refuse(ToolListFilter.tooLong)
        #expect(filter.heldBytes == 0)
    }

    @Test func aLongStreamOfShortEventsIsNotHeldBack() throws {
        let filter = ToolListFilter(Self.rule, Requests(), isStream: true)
        let part = Array(String(repeating: "data: {}\n: x\n\n", count: 5_000).utf8)
        for _ in 0..<20 {
            var out: [UInt8] = []
            try filter.take(part.span, into: &out)
            #expect(filter.heldBytes == 0 && out.count == part.count)
        }
    }

    // MARK: Refusals

    @Test func aRefusalAnswersEveryList() {
        let one = ToolListFilter.refusal("No.", to: Requests(ids: ["7"]), status: 502)
        #expect(one.status == 200 && one.body.hasPrefix(#"{"jsonrpc":"2.0","id":7,"#))
        let batch = ToolListFilter.refusal("No.", to: Requests(ids: ["1", "\"a\""], isBatch: true), status: 502)
        #expect(batch.status == 200 && batch.body.hasPrefix("[{") && batch.body.contains("\"id\":\"a\""))
        let unknown = ToolListFilter.refusal("No.", to: Requests(), status: 502)
        #expect(unknown.status == 502 && unknown.body.contains("\"id\":null"))
    }

    // MARK: Requests

    private static func requests(_ head: String, _ body: String = "", from source: ToolRule.Source = .body) throws
        -> Requests?
    {
        var rule = Self.rule
        rule.source = source
        var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
        let framing = body.isEmpty ? "" : "Content-Length: \(body.utf8.count)\r\n"
        let bytes = Array("\(head)Host: a\r\n\(framing)\r\n".utf8)
        guard case .head = decoder.decode(bytes.span) else { throw RawError("The head is not read.") }
        return rule.listRequests(in: decoder.head, bytes.span, body: Array(body.utf8).span)
    }

    private static let post = "POST /mcp HTTP/1.1\r\n"
    private static let list = #"{"id":7,"method":"tools/list"}"#
    private static let ping = #"{"id":"p","method":"ping"}"#

    @Test func requestsOfListsAreFound() throws {
        #expect(try Self.requests(Self.post, Self.list) == Requests(ids: ["7"]))
        #expect(try Self.requests(Self.post, Self.list.replacing("/", with: #"\u002f"#)) == Requests(ids: ["7"]))
        #expect(try Self.requests(Self.post, "[\(Self.ping),\(Self.list)]") == Requests(ids: ["7"], isBatch: true))
        #expect(try Self.requests(Self.post, Self.list.replacing("tools/list", with: "Tools/List")) != nil)
        #expect(try Self.requests(Self.post, Self.list.replacing("tools/list", with: "tools/call")) == nil)
        #expect(try Self.requests(Self.post, Self.ping) == nil)
        #expect(try Self.requests(Self.post, "{") == Requests(), "what cannot be read may be a list")
        #expect(try Self.requests("\(Self.post)Mcp-Method: tools/list\r\n", "x", from: .header) == Requests())
        #expect(try Self.requests("\(Self.post)Mcp-Method: ping\r\n", "x", from: .header) == nil)
    }

    @Test func aStarFiltersNothing() throws {
        var decoder = RequestHeadDecoder(maxBytes: 10_000, maxFields: 100)
        let bytes = Array("\(Self.post)Host: a\r\nContent-Length: \(Self.list.utf8.count)\r\n\r\n".utf8)
        guard case .head = decoder.decode(bytes.span) else { throw RawError("The head is not read.") }
        let cases: [([String], Bool)] = [(["*"], false), (["search", "*"], false), (["s*"], true), ([], true)]
        for (names, isFiltered) in cases {
            let rule = ToolRule(tools: names.compactMap { .init($0) })
            let requests = rule.listRequests(in: decoder.head, bytes.span, body: Array(Self.list.utf8).span)
            #expect((requests != nil) == isFiltered)
        }
    }

    /// Also with a message, which a server may ignore.
    @Test(arguments: ["", ping], [ToolRule.Source.body, .header])
    func aStreamMayHaveAnswersToOtherRequests(_ body: String, _ source: ToolRule.Source) throws {
        let head = "GET /mcp HTTP/1.1\r\nLast-Event-ID: 5\r\n"
        #expect(try Self.requests(head, body, from: source) == Requests(onlyInStream: true))
    }

    // MARK: Responses

    private static func reading(_ fields: String, _ requests: Requests, status: Int = 200) throws
        -> ToolListFilter.Reading
    {
        var decoder = ResponseHeadDecoder(maxBytes: 10_000, maxFields: 100)
        let bytes = Array("HTTP/1.1 \(status) X\r\n\(fields)\r\n".utf8)
        guard case .head = decoder.decode(bytes.span, answersHead: false) else {
            throw RawError("The head is not read.")
        }
        return ToolListFilter.reading(of: decoder.head, bytes.span, to: requests)
    }

    private static let types: [(fields: String, toList: ToolListFilter.Reading, ofStream: ToolListFilter.Reading)] = [
        ("Content-Type: application/json\r\n", .json, .nothing),
        ("Content-Type: Application/JSON; charset=utf-8\r\nContent-Encoding: identity\r\n", .json, .nothing),
        ("Content-Type: text/event-stream\r\n", .events, .events),
        ("Content-Type: text/event-stream;charset=utf-8\r\n", .events, .events),
        ("Content-Type: x/y; z=text/event-stream\r\n", .events, .events),
        ("Content-Length: 0\r\nContent-Type: application/json\r\n", .nothing, .nothing),
    ]

    @Test(arguments: types)
    func aResponseIsReadByItsType(
        _ fields: String,
        _ toList: ToolListFilter.Reading,
        _ ofStream: ToolListFilter.Reading
    ) throws {
        #expect(try Self.reading(fields, Requests(ids: ["7"])) == toList)
        #expect(try Self.reading(fields, Requests(onlyInStream: true)) == ofStream)
    }

    @Test(arguments: [
        "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
        "Content-Type: text/event-stream\r\nContent-Encoding: br\r\n",
        "Content-Type: text/html\r\n", "", "Content-Type: application/json, text/event-stream\r\n",
        "Content-Type: application/json\r\nContent-Type: text/html\r\n",
    ])
    func whatCannotBeReadIsRefused(_ fields: String) throws {
        guard case .refused = try Self.reading(fields, Requests(ids: ["7"])) else {
            Issue.record("It is read.")
            return
        }
    }

    @Test(arguments: [
        ("", 202), ("Content-Type: text/plain\r\n", 202), ("Content-Type: text/html\r\n", 404), ("", 500), ("", 204),
    ])
    func errorsAndReceiptsPass(_ fields: String, _ status: Int) throws {
        #expect(try Self.reading(fields, Requests(ids: ["7"]), status: status) == .nothing)
    }

    @Test func onlyAStreamOfEventsMayHaveOtherAnswers() throws {
        let stream = Requests(onlyInStream: true)
        for fields in [
            "Content-Type: text/html\r\nContent-Encoding: gzip\r\n", "",
            "Content-Type: application/json\r\nContent-Encoding: br\r\n",
        ] {
            #expect(try Self.reading(fields, stream) == .nothing)
        }
        #expect(
            try Self.reading("Content-Type: text/event-stream\r\nContent-Encoding: gzip\r\n", stream)
                == .refused("has a Content-Encoding")
        )
    }
}
