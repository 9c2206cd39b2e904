import GatewayHTTP
import Testing

@testable import GatewayStrategies

@Suite("Templates", .timeLimit(.minutes(5)))
struct TemplateTests {
    @Test func namesAreFilledIn() throws {
        let template = try Template("a{{ x }}b{{y.z}}{{x}}")
        #expect(template.names == ["x", "y.z", "x"])
        #expect(try template.filled(from: ["x": Secret("1"), "y.z": Secret("{{x}}")]).text == "a1b{{x}}1")
        #expect(template.shown == "a{{x}}b{{y.z}}{{x}}")
        #expect(throws: Template.MissingValue(name: "y.z")) { try template.filled(from: ["x": Secret("1")]) }
    }

    @Test func aURLIsEscaped() throws {
        let template = try Template("/{{x}}")
        #expect(try template.filled(from: ["x": Secret("a b+c/ü?&")], .percent).text == "/a%20b%2Bc%2F%C3%BC%3F%26")
        #expect(template.settling(["x": "/"], .percent).shown == "/%2F")
    }

    @Test(arguments: ["{{", "{{a", "{{}}", "{{ }}", "{{a b}}", "{{ä}}"])
    func whatIsNoTemplateIsRefused(_ text: String) {
        #expect(throws: UnusableInput.self) { try Template(text) }
    }

    @Test(arguments: ["", "}}", "{a}", "{\"a\":{\"b\":1}}", "$ {HOME}"])
    func otherBracesAreText(_ text: String) throws {
        #expect(try Template(text).filled(from: [:]).text == text)
    }
}
