import GatewayCore
import Testing

@Suite("JSON of others", .timeLimit(.minutes(5)))
struct JSONValueTests {
    @Test(arguments: ["1e999", "-1e999", "1e-999", "01", "1."])
    func aNumberThatCannotBeReadIsForgivenOnlyWhereThatIsAskedFor(_ number: String) throws {
        let bytes = Array(#"{"a":"text","n":[\#(number)],"t":true,"z":null}"#.utf8)
        #expect(JSONValue(bytes) == nil)
        let value = try #require(JSONValue(bytes, forgivingNumbers: true))
        #expect(value["a"] == .string("text") && value["t"] == .bool(true) && value["z"] == .null)
        guard case .array(let elements) = value["n"], case .number(let found)? = elements.first else {
            Issue.record("no number")
            return
        }
        #expect(found.value.isNaN && found.text == number)
    }

    @Test(arguments: [
        "17841400008460057", "-9223372036854775809", "0.10000000000000000555", "1.0", "1e3", "12345678901234567890.5",
    ])
    func aNumberKeepsItsText(_ number: String) throws {
        let text = #"{"a":[\#(number)]}"#
        let value = try #require(JSONValue(Array(text.utf8)))
        guard case .array(let elements) = value["a"], case .number(let found)? = elements.first else {
            Issue.record("no number")
            return
        }
        #expect(found.text == number && found.value == Double(number))
        #expect(try value.bytes() == Array(text.utf8))
    }

    @Test func aLongWholeNumberIsExact() throws {
        guard case .number(let id)? = JSONValue(Array(#"{"id":17841400008460057}"#.utf8))?["id"] else {
            Issue.record("no number")
            return
        }
        #expect(id.whole == 17_841_400_008_460_057)
        #expect(JSONValue.Number(3600.0) == 3600 && JSONValue.Number(0.5).whole == nil)
    }

    @Test func stringsAreReadWithTheirEscapes() throws {
        let text =
            "\u{FEFF} "
            + #"{"a": "\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00é" , "b" : [ ] , "c":{}, "d":[true,false,null] } "#
        let value = try #require(JSONValue(Array(text.utf8)))
        #expect(value["a"] == .string("\"\\/\u{8}\u{C}\n\r\té😀é"))
        #expect(value["b"] == .array([]) && value["c"] == .object([:]))
        #expect(value["d"] == .array([.bool(true), .bool(false), .null]))
        #expect(try JSONValue(value.bytes()) == value)
    }

    @Test(arguments: [
        #"{"a":"\uD83D"}"#, #"{"a":"\uDE00"}"#, #"{"a":"\x"}"#, "{\"a\":\"\t\"}", #"{"a":1,}"#, "[1,]", "[1 2]",
        #"{"a" 1}"#,
        #"{a:1}"#, "[.5]", "[+1]", "[-]", "[1e]", "[0x1]", "tru", "[1]]", "{}{}", "\"", #"{"a":"#,
    ])
    func whatRFC8259DoesNotAllowIsNoJSON(_ text: String) {
        #expect(JSONValue(Array(text.utf8)) == nil)
    }

    @Test func aStringThatIsNotUTF8IsNoJSON() {
        #expect(JSONValue(Array(#"{"a":""#.utf8) + [0xFF] + Array(#""}"#.utf8)) == nil)
    }

    @Test func itsSizeIsBounded() {
        let (deep, wide) = (64, 10_000)
        let nested = { (depth: Int) in
            Array((String(repeating: "[", count: depth) + String(repeating: "]", count: depth)).utf8)
        }
        #expect(JSONValue(nested(deep)) != nil && JSONValue(nested(deep + 1)) == nil)
        let list = { (count: Int) in Array("[\(Array(repeating: "1", count: count).joined(separator: ","))]".utf8) }
        #expect(JSONValue(list(wide + 1)) != nil && JSONValue(list(wide + 2)) == nil)
    }

    @Test func repeatedNamesAreRefusedWhereThatIsAskedFor() {
        let bytes = Array(#"{"a":{"b":1,"b":2}}"#.utf8)
        #expect(JSONValue(bytes)?["a"]?["b"] == .number(1))
        #expect(JSONValue(bytes, uniqueNames: true) == nil)
    }

    @Test(arguments: ["", "{", "{\"n\":nope}", "[1", "<html>"])
    func whatIsNoJSONIsNotForgiven(_ text: String) {
        #expect(JSONValue(Array(text.utf8), forgivingNumbers: true) == nil)
    }
}
