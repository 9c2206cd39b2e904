import GatewayCore
import Testing

@Suite("JSON of others", .timeLimit(.minutes(5)))
struct JSONValueTests {
    @Test(arguments: ["1e999", "-1e999", "1e-999", "01", "1."])
    func aNumberThatCannotBeReadIsForgivenOnlyWhereThatIsAskedFor(_ number: String) throws {
        let bytes = Array(#"{"a":"text","n":[\#(number)],"t":true,"z":null}"#.utf8)
        #expect(JSONValue(bytes) == nil)
        let value = try #require(JSONValue(bytes, forgiving: true))
        #expect(value["a"] == .string("text") && value["t"] == .bool(true) && value["z"] == .null)
        guard case .array(let elements) = value["n"], case .number(let found)? = elements.first else {
            Issue.record("no number")
            return
        }
        #expect(found.isNaN)
    }

    @Test func damageIsForgivenOnlyWhereThatIsAskedFor() throws {
        let damaged: [([UInt8], String)] = [
            (Array("{\"a\":\"b\tc\nd\"}".utf8), "b\tc\nd"), (Array(#"{"a":"b\ud83dc"}"#.utf8), "b\u{FFFD}c"),
            (Array(#"{"a":"it\'s"}"#.utf8), "it\u{FFFD}s"),
            (Array(#"{"a":"caf"#.utf8) + [0xE9] + Array(#""}"#.utf8), "caf\u{FFFD}"),
        ]
        for (bytes, text) in damaged {
            #expect(JSONValue(bytes) == nil)
            #expect(JSONValue(bytes, forgiving: true)?["a"] == .string(text))
        }
        #expect(JSONValue([0xEF, 0xBB, 0xBF] + Array(#"{"a":1}"#.utf8))?["a"] == .number(1))
    }

    @Test func aMemberThatIsGivenTwiceCountsWhereBothAgree() throws {
        let value = try #require(
            JSONValue(Array(#"{"a":"1","a":"1","b":"1","b":"2","c":{"d":[1],"d":[1]}}"#.utf8), forgiving: true)
        )
        #expect(value["a"] == .string("1"))
        #expect(value["b"] == .array([.string("1"), .string("2")]), "no string for anybody")
        #expect(value["c"]?["d"] == .array([.number(1)]))
        #expect(JSONValue(Array(#"{"a":1,"a":1}"#.utf8), uniqueNames: true) == nil)
    }

    @Test func aMemberThatIsGivenCountlessTimesIsBounded() throws {
        let members = (0..<9_000).map { #""a":"\#($0)""# }.joined(separator: ",")
        let value = try #require(JSONValue(Array("{\(members)}".utf8), forgiving: true))
        guard case .array(let elements)? = value["a"] else {
            Issue.record("no array")
            return
        }
        #expect(elements.count == 16)
    }

    @Test func aFormIsAnObjectOfStrings() throws {
        let value = try #require(JSONValue(form: Array("a=1+2&b=%C3%A9%zz&c=&d=1&d=1&e=1&e=2".utf8)))
        #expect(value["a"] == .string("1 2") && value["b"] == .string("é%zz") && value["c"] == .string(""))
        #expect(value["d"] == .string("1") && value["e"] == .array([.string("1"), .string("2")]))
        #expect(JSONValue(form: Array("<html>".utf8)) == nil && JSONValue(form: []) == nil)
        #expect(JSONValue(form: Array(String(repeating: "a=1&", count: 10_001).utf8)) == nil)
    }

    @Test func countlessOrDeepValuesAreNotRead() {
        for forgiving in [false, true] {
            let deep = String(repeating: "[", count: 65) + String(repeating: "]", count: 65)
            #expect(JSONValue(Array(deep.utf8), forgiving: forgiving) == nil)
            let long = "[" + String(repeating: "1,", count: 10_001) + "1]"
            #expect(JSONValue(Array(long.utf8), forgiving: forgiving) == nil)
        }
    }

    @Test(arguments: ["", "{", "{\"n\":nope}", "[1", "<html>"])
    func whatIsNoJSONIsNotForgiven(_ text: String) {
        #expect(JSONValue(Array(text.utf8), forgiving: true) == nil)
    }
}
