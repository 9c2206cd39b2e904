import GatewayHTTP
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
        #expect(id.whole == 17_841_400_008_460_057 && id.int == 17_841_400_008_460_057)
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

    @Test func damageIsForgivenOnlyWhereThatIsAskedFor() throws {
        let damaged: [([UInt8], String)] = [
            (Array("{\"a\":\"b\tc\nd\"}".utf8), "b\tc\nd"), (Array(#"{"a":"b\ud83dc"}"#.utf8), "b\u{FFFD}c"),
            (Array(#"{"a":"it\'s"}"#.utf8), "it\u{FFFD}s"),
            (Array(#"{"a":"\ud83d\"x"}"#.utf8), "\u{FFFD}\"x"), (Array(#"{"a":"\ud83d\\"}"#.utf8), "\u{FFFD}\\"),
            (Array(#"{"a":"\ud83d\u0041"}"#.utf8), "\u{FFFD}A"),
            (Array(#"{"a":"\ud83d\ud83d\ude00"}"#.utf8), "\u{FFFD}😀"),
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
        #expect(value["b"] == .conflict([.string("1"), .string("2")]), "no string for anybody")
        #expect(value["c"]?["d"] == .array([.number(1)]))
        #expect(JSONValue(Array(#"{"a":1,"a":1}"#.utf8), uniqueNames: true) == nil)
    }

    @Test(arguments: [
        (#"{"t":"A","t":"B"}"#, "/t/0"), (#"{"t":[{"v":"A"}],"t":[{"v":"B"}]}"#, "/t/0/v"),
        (#"{"t":{"v":"A"},"t":{"v":"B"}}"#, "/t/v"), (#"{"t":"A","t":["A"]}"#, "/t/1/0"),
    ])
    func noPointerLeadsIntoWhatIsGivenTwice(_ text: String, _ written: String) throws {
        let value = try #require(JSONValue(Array(text.utf8), forgiving: true))
        #expect(try #require(JSONPointer(written)).value(in: value) == nil)
        let whole = try #require(JSONPointer("/t")?.value(in: value))
        #expect(whole.isDamaged && whole.string == nil)
        #expect(throws: JSONValue.Unwritable.self) { try value.bytes() }
    }

    @Test(arguments: ["1-2", "0123", "1e999", "1."])
    func aDamagedNumberIsNoWholeNumber(_ number: String) throws {
        let value = try #require(JSONValue(Array("[\(number)]".utf8), forgiving: true))
        guard case .array(let elements) = value, case .number(let found)? = elements.first else {
            Issue.record("no number")
            return
        }
        #expect(found.whole == nil && elements.allSatisfy(\.isDamaged))
    }

    @Test func aMemberThatIsGivenCountlessTimesIsBounded() throws {
        let members = (0..<9_000).map { #""a":"\#($0)""# }.joined(separator: ",")
        let value = try #require(JSONValue(Array("{\(members)}".utf8), forgiving: true))
        guard case .conflict(let values)? = value["a"] else {
            Issue.record("no conflict")
            return
        }
        #expect(values.count == 16)
    }

    @Test func aFormIsAnObjectOfStrings() throws {
        let value = try #require(JSONValue(form: Array("a=1+2&b=%C3%A9%zz&c=&d=1&d=1&e=1&e=2".utf8)))
        #expect(value["a"] == .string("1 2") && value["b"] == .string("é%zz") && value["c"] == .string(""))
        #expect(value["d"] == .string("1") && value["e"] == .conflict([.string("1"), .string("2")]))
        let bare = try #require(JSONValue(form: Array("ok&a=1&".utf8)))
        #expect(bare["ok"] == .string("") && bare["a"] == .string("1"))
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

@Suite("JSON strings", .timeLimit(.minutes(5)))
struct JSONStringTests {
    private static let texts: [(text: String, plain: String, harmless: String)] = [
        ("", #""""#, #""""#),
        ("Ünïcode 😀", #""Ünïcode 😀""#, #""Ünïcode 😀""#),
        (#"a"b\c/"#, #""a\"b\\c/""#, #""a\"b\\c/""#),
        ("\n\r\t", #""\n\r\t""#, #""\n\r\t""#),
        ("\u{0}\u{1B}\u{7F}", #""\u0000\u001b\u007f""#, #""\u0000\u001b\u007f""#),
        // A reader of JSON takes these as they are, a terminal or a person does not.
        ("\u{85}\u{2028}\u{202E}", "\"\u{85}\u{2028}\u{202E}\"", #""\u0085\u2028\u202e""#),
        ("\u{E0041}", "\"\u{E0041}\"", #""\udb40\udc41""#),
    ]

    @Test(arguments: texts)
    func theyAreWrittenAsTheReaderNeedsThem(_ text: String, _ plain: String, _ harmless: String) {
        #expect(JSONString.quoted(text) == plain)
        #expect(JSONString.quoted(text, isPlain: \.isHarmless) == harmless)
        for written in [plain, harmless] { #expect(JSONValue(Array(written.utf8))?.string == text) }
    }

    @Test func whatIsTooLongIsCutAndMarked() {
        #expect(JSONString.quoted("abcdef", limit: 4, isPlain: \.isHarmless) == #""abc…""#)
        #expect(JSONString.quoted("abc", limit: 4, isPlain: \.isHarmless) == #""abc""#)
        // An escape is whole or not there.
        #expect(JSONString.quoted("ab\u{1}c", limit: 4, isPlain: \.isHarmless) == #""ab\u0001…""#)
    }
}
