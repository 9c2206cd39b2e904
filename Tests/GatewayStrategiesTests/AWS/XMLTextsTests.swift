import Testing

@testable import GatewayStrategies

@Suite("XML as AWS answers", .timeLimit(.minutes(5)))
struct XMLTextsTests {
    private func texts(_ document: String) -> XMLTexts? { XMLTexts(Array(document.utf8)) }

    @Test func textsAreFoundByTheirPath() throws {
        let found = try #require(
            texts(
                """
                <?xml version="1.0"?>
                <!-- an error -->
                <ErrorResponse xmlns="https://sts.amazonaws.com/>">
                  <Error><Type>Sender</Type><Code >AccessDenied</Code><Message>a &lt;b&gt; &amp; &#x43;&#68;</Message></Error>
                  <RequestId/>
                </ErrorResponse>
                """
            )
        )
        #expect(found["ErrorResponse/Error/Code"] == "AccessDenied")
        #expect(found["ErrorResponse/Error/Message"] == "a <b> & CD")
        #expect(found["ErrorResponse/RequestId"] == "")
        #expect(found["ErrorResponse/Error"] == nil)
        #expect(found["Code"] == nil)
    }

    @Test(arguments: [
        "", " ", "text", "<A>", "<A></B>", "<A></A></A>", "<A/><B/>", "<A/>text", "text<A/>", "<A>text<B/></A>", "<>",
        "</>",
        "<A b='", "<A", "<!DOCTYPE A><A/>", "<A><![CDATA[x]]></A>", "<A>&other;</A>", "<A>&#xD800;</A>", "<A>&amp</A>",
        "<A><B>1</B><B>2</B></A>", "<!-- <A/>", "<?xml <A/>", "{\"Error\": 1}",
    ])
    func whatIsAnythingElseIsRefused(_ document: String) { #expect(texts(document) == nil) }

    @Test func itIsBounded() {
        func nested(_ depth: Int) -> String {
            String(repeating: "<A>", count: depth) + String(repeating: "</A>", count: depth)
        }
        #expect(texts(nested(XMLTexts.maximumDepth)) != nil)
        #expect(texts(nested(XMLTexts.maximumDepth + 1)) == nil)
        func wide(_ count: Int) -> String { "<A>" + (1..<count).map { "<B\($0)/>" }.joined() + "</A>" }
        #expect(texts(wide(XMLTexts.maximumElements)) != nil)
        #expect(texts(wide(XMLTexts.maximumElements + 1)) == nil)
        func long(_ bytes: Int) -> String { "<A>" + String(repeating: "x", count: bytes - 7) + "</A>" }
        #expect(texts(long(XMLTexts.limitBytes)) != nil)
        #expect(texts(long(XMLTexts.limitBytes + 1)) == nil)
    }

    @Test func invalidUTF8IsRefused() { #expect(XMLTexts(Array("<A>".utf8) + [0xFF] + Array("</A>".utf8)) == nil) }
}
