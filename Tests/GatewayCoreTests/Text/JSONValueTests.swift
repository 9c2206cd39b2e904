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
        #expect(found.isNaN)
    }

    @Test(arguments: ["", "{", "{\"n\":nope}", "[1", "<html>"])
    func whatIsNoJSONIsNotForgiven(_ text: String) {
        #expect(JSONValue(Array(text.utf8), forgivingNumbers: true) == nil)
    }
}
