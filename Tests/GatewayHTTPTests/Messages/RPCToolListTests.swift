import Testing

@testable import GatewayHTTP

@Suite("Lists of tools in answers of MCP servers", .timeLimit(.minutes(5)))
struct RPCToolListTests {
    /// - Returns: What is left of the text.
    private static func shown(_ text: String, _ allowed: Set<String> = ["search", "read"]) throws -> String {
        let bytes = Array(text.utf8)
        let list = try RPCToolList(bytes.span) { allowed.contains(String(decoding: $0, as: UTF8.self)) }
        var rest = bytes
        for range in list.dropped.reversed() { rest.removeSubrange(range) }
        return String(decoding: rest, as: UTF8.self)
    }

    private static func fault(_ bytes: [UInt8]) -> RPCFault? {
        do throws(RPCFault) { _ = try RPCToolList(bytes.span) { _ in true } } catch { return error }
        return nil
    }

    private static func answer(_ tools: String) -> String {
        #"{"jsonrpc":"2.0","id":1,"result":{"tools":[\#(tools)],"nextCursor":"x","ttlMs":5}}"#
    }

    private static func tool(_ name: String) -> String { #"{"name":"\#(name)","inputSchema":{"name":"read"}}"# }

    // MARK: What is left out

    @Test(arguments: [
        ([], []), (["search"], ["search"]), (["delete"], []), (["search", "delete"], ["search"]),
        (["delete", "search"], ["search"]), (["delete", "drop"], []), (["delete", "drop", "read"], ["read"]),
        (["search", "delete", "drop", "read"], ["search", "read"]),
        (["search", "delete", "read", "drop"], ["search", "read"]),
        (["delete", "search", "drop", "read", "Search"], ["search", "read"]),
    ])
    func onlyAllowedToolsStay(_ all: [String], _ kept: [String]) throws {
        for separator in [",", " ,\n "] {
            let tools = all.map(Self.tool).joined(separator: separator)
            let shown = try Self.shown(Self.answer(tools)).filter { $0 != " " && $0 != "\n" }
            #expect(shown == Self.answer(kept.map(Self.tool).joined(separator: ",")))
        }
    }

    @Test(arguments: [
        #"{"jsonrpc":"2.0","method":"notifications/progress","params":{"tools":[{"name":"delete"}]}}"#,
        #"{"id":1,"error":{"code":1,"message":"x","data":{"tools":[{"name":"delete"}]}}}"#,
        #"{"id":1,"result":{"content":[{"tools":[{"name":"delete"}]}]}}"#,
        #"{"id":1,"result":[{"tools":[{"name":"delete"}]}]}"#,
        #"{"id":1,"result":{}}"#, "{}", "[]", "5", "\"tools\"",
        #"{"tools":[{"name":"delete"}]}"#,
    ])
    func everythingElseStays(_ text: String) throws { #expect(try Self.shown(text) == text) }

    @Test func answersInABatchAreRead() throws {
        let all = "\(Self.tool("delete")),\(Self.tool("read"))"
        let texts = (Self.answer(all), Self.answer(Self.tool("read")))
        #expect(try Self.shown(" [\(texts.0), \(texts.0)] ") == " [\(texts.1), \(texts.1)] ")
        #expect(try Self.shown("[[\(texts.0)]]") == "[[\(texts.1)]]")
    }

    @Test func aStarShowsAll() throws {
        let text = Self.answer("\(Self.tool("delete")),\(Self.tool("read"))")
        let bytes = Array(text.utf8)
        #expect(try RPCToolList(bytes.span) { _ in true }.dropped.isEmpty)
    }

    // MARK: What a client could read differently

    @Test(arguments: [
        #"{"name":"read","name":"delete"}"#, #"{"name":"delete","name":"read"}"#, #"{"name":"read","Name":"delete"}"#,
        #"{"NAME":"delete"}"#, #"{"n\u0061me":"delete"}"#, #"{"name":"d\u0065lete"}"#, #"{"name":["read"]}"#,
        #"{"name":"read","name":null}"#, #"{"title":"read"}"#, "{}", "5", #""read""#, "null", #"["read"]"#,
    ])
    func aToolWithoutOneAllowedNameIsLeftOut(_ tool: String) throws {
        #expect(try Self.shown(Self.answer("\(tool),\(Self.tool("read"))")) == Self.answer(Self.tool("read")))
    }

    @Test(arguments: ["Result", #"res\u0075lt"#, "reſult"], ["Tools", #"t\u006fols"#, "toolſ"])
    func otherSpellingsOfMembersAreReadToo(_ result: String, _ tools: String) throws {
        let text = #"{"id":7.0,"\#(result)":{"\#(tools)":[{"name":"delete"}]}}"#
        #expect(try Self.shown(text) == text.replacing(#"{"name":"delete"}"#, with: ""))
    }

    @Test func eachOfTwoMembersIsRead() throws {
        let lists = #""tools":[{"name":"read"}],"tools":[{"name":"delete"}]"#
        #expect(
            try Self.shown(#"{"result":{\#(lists)},"result":{\#(lists)}}"#)
                == #"{"result":{\#(lists)},"result":{\#(lists)}}"#.replacing(#"{"name":"delete"}"#, with: "")
        )
    }

    @Test(arguments: [
        (#"{"result":{"tools":{"delete":{}}}}"#, RPCFault.noToolList), (#"{"result":{"tools":null}}"#, .noToolList),
        (#"{"result":{"tools":[]}} {}"#, .notJSON), (#"{"result":{"tools":[{"name":"delete"}]"#, .notJSON),
        ("", .notJSON),
        (#"{"result":{"tools":[{"name":"\ud800"}]}}"#, .notJSON), ("\u{FEFF}{}", .notJSON),
        (String(repeating: "[", count: 200), .tooDeep),
    ])
    func whatCannotBeReadIsAFault(_ text: String, _ fault: RPCFault) { #expect(Self.fault(Array(text.utf8)) == fault) }

    @Test func aTextInAnotherCharsetIsAFault() {
        let text = Self.answer(Self.tool("delete"))
        #expect(Self.fault(text.utf16.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }) == .notJSON)
    }

    @Test func manyToolsTakeTimeInProportion() throws {
        let tools = (0..<100_000).map { #"{"name":"t\#($0)"}"# }.joined(separator: ",")
        #expect(try Self.shown(Self.answer(tools), ["t5"]) == Self.answer(#"{"name":"t5"}"#))
    }
}
