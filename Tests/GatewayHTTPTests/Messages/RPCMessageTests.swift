import Testing

@testable import GatewayHTTP

@Suite("Messages of JSON-RPC", .timeLimit(.minutes(5)))
struct RPCMessageTests {
    private static let call =
        #"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"search","arguments":{}}}"#

    private static func read(_ bytes: [UInt8]) -> Result<RPCBody, RPCFault> {
        do throws(RPCFault) { return .success(try RPCBody(bytes.span)) } catch { return .failure(error) }
    }

    private static func read(_ text: String) -> Result<RPCBody, RPCFault> { read(Array(text.utf8)) }

    private static func fault(_ bytes: [UInt8]) -> RPCFault? {
        if case .failure(let fault) = read(bytes) { fault } else { nil }
    }

    private static func message(_ text: String) throws -> RPCMessage {
        let body = try read(text).get()
        #expect(!body.isBatch)
        return try #require(body.messages.first)
    }

    // MARK: What is read

    @Test(arguments: [call, " \t\r\n\(call)\n", call.replacing("tools/call", with: #"tools\u002fc\u0061ll"#)])
    func aCallIsRead(_ text: String) throws {
        let message = try Self.message(text)
        #expect(message == RPCMessage(id: "7", method: Array("tools/call".utf8), name: Array("search".utf8)))
    }

    @Test func whatArgumentsSayIsNotTheCall() throws {
        let nested = #"{"method":"tools/list","params":{"name":"other"},"name":"other","name":"third"}"#
        let text = Self.call.replacing(#""arguments":{}"#, with: #""arguments":\#(nested),"_meta":{"name":"x"}"#)
        #expect(try Self.message(text).name == Array("search".utf8))
    }

    @Test(arguments: [
        (#""a\"b\u00e9""#, #""a\"b\u00e9""#), ("-0.5e+3", "-0.5e+3"),
        ("12345678901234567890123", "12345678901234567890123"),
        ("1e999", "1e999"), ("null", nil),
    ])
    func anIDStaysAsItWasWritten(_ id: String, _ read: String?) throws {
        #expect(try Self.message(#"{"method":"ping","id":\#(id)}"#).id == read)
    }

    @Test func escapesAndOtherScriptsAreDecoded() throws {
        let text = #"{"id":1,"method":"tools/call","params":{"n\u0061me":"é\u00e9\ud83d\ude00\n\/"}}"#
        #expect(try Self.message(text).name == Array("éé😀\n/".utf8))
    }

    @Test func aResponseHasNoMethod() throws {
        for text in [#"{"jsonrpc":"2.0","id":1,"result":{"method":"tools/call"}}"#, #"{"id":1,"error":{}}"#] {
            #expect(try Self.message(text).method == nil)
        }
    }

    @Test func aBatchHasSeveral() throws {
        let body = try Self.read("[\(Self.call), {\"method\":\"notifications/x\"}]").get()
        #expect(body.isBatch && body.messages.map(\.id) == ["7", nil])
    }

    @Test func aURIIsRead() throws {
        let message = try Self.message(#"{"id":1,"method":"resources/read","params":{"uri":"file:///a"}}"#)
        #expect(message.uri == Array("file:///a".utf8) && message.name == nil)
    }

    @Test func aNameThatIsNoStringIsNone() throws {
        for name in ["5", "null", #"["search"]"#, #"{"name":"search"}"#] {
            #expect(try Self.message(#"{"id":1,"method":"tools/call","params":{"name":\#(name)}}"#).name == nil)
        }
    }

    // MARK: What two readers could read differently

    @Test(arguments: [
        #"{"id":1,"method":"tools/list","method":"tools/call"}"#,
        #"{"id":1,"method":"tools/list","m\u0065thod":"tools/call"}"#,
        #"{"id":1,"id":2,"method":"ping"}"#, #"{"id":1,"method":"ping","params":{},"params":{"name":"x"}}"#,
        #"{"id":1,"method":"tools/call","params":{"name":"search","name":"delete"}}"#,
        #"{"id":1,"method":"tools/call","params":{"name":"search","n\u0061me":"delete"}}"#,
        #"{"id":1,"method":"tools/call","params":{"name":"search","Name":"delete"}}"#,
        #"{"id":1,"method":"tools/call","params":{"NAME":"delete"}}"#,
        #"{"id":1,"method":"tools/call","params":{"arguments":{},"arguments":{},"name":"search"}}"#,
    ])
    func aMemberIsThereOnce(_ text: String) { #expect(Self.fault(Array(text.utf8)) == .repeatedMember) }

    @Test(arguments: [
        #"{"id":1,"method":"tools/list","Method":"tools/call"}"#, #"{"id":1,"METHOD":"tools/call"}"#,
        #"{"id":1,"method":"ping","result":{}}"#, #"{"id":1,"result":{},"error":{}}"#, #"{"id":1}"#, "{}", "[1]",
        "null", "7",
        "\"tools/call\"", "[[\(call)]]", #"{"id":1,"method":5}"#, #"{"id":true,"method":"ping"}"#,
        #"{"id":{},"method":"ping"}"#,
        #"{"id":1,"method":"tools/call","params":["search"]}"#, #"{"id":1,"method":"tools/call","params":"search"}"#,
    ])
    func whatIsNoMessageIsRefused(_ text: String) { #expect(Self.fault(Array(text.utf8)) == .notMessage) }

    @Test(arguments: [
        "", " ", "\(call)x", "\(call)\(call)", "\(call),", "[\(call)", "[\(call),]", #"{"id":1,"method":"ping",}"#,
        #"{"id":1 "method":"ping"}"#, #"{id:1,"method":"ping"}"#, #"{'id':1}"#, "// x\n\(call)", "\0\(call)",
        #"{"id":1,"method":"ping","params":{"x":NaN}}"#, #"{"id":1,"method":"ping","params":{"x":Infinity}}"#,
        #"{"id":1,"method":"ping","params":{"x":01}}"#, #"{"id":1,"method":"ping","params":{"x":1.}}"#,
        #"{"id":1,"method":"ping","params":{"x":+1}}"#, #"{"id":1,"method":"ping","params":{"x":tru}}"#,
        #"{"id":1,"method":"\ud800"}"#, #"{"id":1,"method":"\udc00"}"#, #"{"id":1,"method":"\ud800\u0041"}"#,
        #"{"id":1,"method":"\x41"}"#, #"{"id":1,"method":"\u00g0"}"#, "{\"id\":1,\"method\":\"a\u{01}b\"}",
        #"{"id":1,"method":"a"#,
    ])
    func whatIsNotJSONIsRefused(_ text: String) { #expect(Self.fault(Array(text.utf8)) == .notJSON) }

    @Test func onlyUTF8IsRead() {
        let utf16 = Self.call.utf16.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)] }
        let bodies: [[UInt8]] = [
            [0xEF, 0xBB, 0xBF] + Self.call.utf8, [0xFF, 0xFE] + utf16, utf16, [0x1F, 0x8B, 0x08, 0x00],
        ]
        for body in bodies { #expect(Self.fault(body) == .notJSON) }
        // Overlong, a surrogate, beyond the last character, cut, and a byte that continues nothing.
        let texts: [[UInt8]] = [
            [0xC0, 0xAF], [0xE0, 0x80, 0xAF], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80], [0xF5, 0x80, 0x80, 0x80],
            [0xE2, 0x82], [0xE2, 0x28, 0xA1], [0x80], [0xFF],
        ]
        for text in texts {
            #expect(Self.fault(Array(#"{"id":1,"method":""#.utf8) + text + Array(#""}"#.utf8)) == .notJSON)
            #expect(Self.fault(Array(#"{"id":1,"method":""#.utf8) + text) == .notJSON)
        }
    }

    // MARK: Bounds

    @Test func nestingHasABound() throws {
        func nested(_ depth: Int) -> String {
            let (open, close) = (String(repeating: "[", count: depth), String(repeating: "]", count: depth))
            return #"{"id":1,"method":"ping","params":{"x":\#(open)\#(close)}}"#
        }
        // The message and its parameters are two.
        _ = try Self.message(nested(RPCBody.maximumDepth - 2))
        #expect(Self.fault(Array(nested(RPCBody.maximumDepth - 1).utf8)) == .tooDeep)
        #expect(Self.fault(Array(String(repeating: "[", count: 1_000_000).utf8)) == .tooDeep)
        #expect(Self.fault(Array(String(repeating: "{\"a\":", count: 200_000).utf8)) == .notMessage)
    }

    @Test func countsHaveBounds() throws {
        func batch(_ count: Int) -> String {
            "[" + Array(repeating: Self.call, count: count).joined(separator: ",") + "]"
        }
        #expect(try Self.read(batch(RPCBody.maximumMessages)).get().messages.count == RPCBody.maximumMessages)
        #expect(Self.fault(Array(batch(RPCBody.maximumMessages + 1).utf8)) == .tooManyMessages)
        #expect(Self.fault(Array("[]".utf8)) == .emptyBatch)
        func parameters(_ count: Int) -> String {
            let members = (0..<count).map { "\"p\($0)\":0" }.joined(separator: ",")
            return #"{"id":1,"method":"ping","params":{\#(members)}}"#
        }
        _ = try Self.message(parameters(RPCBody.maximumParameters))
        #expect(Self.fault(Array(parameters(RPCBody.maximumParameters + 1).utf8)) == .tooManyParameters)
        func id(_ count: Int) -> String { #"{"method":"ping","id":\#(String(repeating: "1", count: count))}"# }
        _ = try Self.message(id(RPCBody.maximumIDBytes))
        #expect(Self.fault(Array(id(RPCBody.maximumIDBytes + 1).utf8)) == .idTooLong)
    }

    /// Whatever is cut off or changed: it is read or refused, and nothing traps.
    @Test func noBytesTrap() {
        let bytes = Array(
            #"[{"id":"\ud83d\ude00é","method":"tools/call","params":{"name":"a","x":[-1.5e3,true,{"b":null}]}}]"#.utf8
        )
        for index in bytes.indices {
            #expect(Self.fault(Array(bytes[..<index])) != nil)
            for byte: UInt8 in [0x00, 0x22, 0x2C, 0x5B, 0x5C, 0x5D, 0x7B, 0x7D, 0x80, 0xFF] {
                var changed = bytes
                changed[index] = byte
                _ = Self.read(changed)
            }
        }
    }

    // MARK: Answers

    @Test func anAnswerRepeatsTheID() throws {
        let failure = RPCRefusal.Failure(id: #""a\"b""#, code: -32602, message: "not \"x\"")
        let one = RPCRefusal(failure, status: 200)
        #expect(one.body == #"{"jsonrpc":"2.0","id":"a\"b","error":{"code":-32602,"message":"not \"x\""}}"# + "\n")
        #expect(RPCRefusal([failure, .init(id: nil, code: 1, message: "")], status: 200).body.hasPrefix("[{"))
        #expect(RPCRefusal(.init(id: nil, code: 1, message: ""), status: 400).body.contains("\"id\":null"))
    }

    @Test func aProblemCanBeAnsweredInJSONRPC() {
        var problem = GatewayProblem(.routeForbidden, "The route secret does not allow it.")
        problem.rpc = RPCRefusal(.init(id: "1", code: -32602, message: "no"), status: 200)
        for disclosesNames in [true, false] {
            let answer = ProblemAnswer(
                problem,
                requestID: "r",
                disclosesNames: disclosesNames,
                sendsProxyStatus: false,
                form: .init(prefersText: true)
            )
            #expect(
                answer.status == 200 && answer.fields.contains(.init(name: "Content-Type", value: "application/json"))
            )
            #expect(String(decoding: answer.body, as: UTF8.self) == problem.rpc?.body)
        }
    }
}
