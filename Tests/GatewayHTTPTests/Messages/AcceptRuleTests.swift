import GatewayHTTP
import GatewayTesting
import Testing

@Suite("The form of a problem", .timeLimit(.minutes(5)))
struct AcceptRuleTests {
    private static func prefersText(_ values: [String]) -> Bool? {
        HeadText.request(values.map { "Accept: \($0)" }) { AcceptRule.prefersText($0, $1) }
    }

    @Test(arguments: [
        "text/plain", "Text/PLAIN", "text/plain;charset=utf-8", "text/html, text/plain", "text/plain,text/html",
        "text/html , \ttext/plain ; q=0.5", "text/plain;q=1", "text/plain;q=0.001", "text/plain, application/*;q=0.1",
        "text/*, text/plain",
    ])
    func aClientThatTakesTextAndSaysNothingOfJSONGetsText(_ value: String) {
        #expect(Self.prefersText([value]) == true)
    }

    @Test(arguments: [
        "", "*/*", "text/html", "text/*", "application/json", "application/problem+json",
        "text/plain, application/json",
        "application/json;q=0.1, text/plain", "APPLICATION/JSON, text/plain", "text/plain, */*;q=0.1",
        "*/*, text/plain",
        "text/plain, application/problem+json", "text/plainer", "x-text/plain",
        // Not acceptable (RFC 9110 section 12.4.2).
        "text/plain;q=0", "text/plain; Q=0.000", "text/html, text/plain ;q=0.",
    ])
    func everybodyElseGetsJSON(_ value: String) { #expect(Self.prefersText([value]) == false) }

    /// Several fields are one list (RFC 9110 section 5.3).
    @Test(arguments: [
        (["text/html", "text/plain"], true), (["text/plain", "text/html"], true), (["", "text/plain"], true),
        (["text/plain", "application/json"], false), (["application/json", "text/plain"], false),
        (["text/plain", "*/*"], false), (["text/html", "image/png"], false), ([], false),
    ])
    func severalFieldsAreOneList(_ values: [String], _ expected: Bool) { #expect(Self.prefersText(values) == expected) }

    @Test(arguments: [("accept", true), ("ACCEPT", true), ("Accept-Encoding", false), ("X-Accept", false)])
    func onlyOneFieldCounts(_ name: String, _ expected: Bool) {
        #expect(HeadText.request(["\(name): text/plain"]) { AcceptRule.prefersText($0, $1) } == expected)
    }
}
