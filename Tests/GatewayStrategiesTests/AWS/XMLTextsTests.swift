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
        ("<![CDATA[x]]>", "x"), ("a<![CDATA[<B>&amp;]]>&lt;b", "a<B>&amp;<b"), ("<![CDATA[]]]]><![CDATA[>]]>", "]]>"),
        ("a<!-- <B> -->b<?c d?>e", "abe"), ("<![CDATA[]]>", ""), (" a ", " a "),
    ])
    func textMayHaveSeveralParts(_ inner: String, _ text: String) throws {
        #expect(try #require(texts("<A>\(inner)</A>"))["A"] == text)
    }

    @Test func anElementThatIsRepeatedHasNoText() throws {
        let found = try #require(texts("<A><B>1</B><C>2</C><B>3</B></A>"))
        #expect(found["A/B"] == nil && found["A/C"] == "2")
        #expect(found.first("A/B") == "1" && found.first("A/C") == "2" && found.first("A/D") == nil)
    }

    @Test(arguments: [
        "", " ", "text", "<A>", "<A></B>", "<A></A></A>", "<A/><B/>", "<A/>text", "text<A/>", "<A>text<B/></A>", "<>",
        "</>", "<A><B/>text</A>", "<A><B/><![CDATA[x]]></A>", "<![CDATA[x]]><A/>",
        "<A b='", "<A", "<!DOCTYPE A><A/>", "<!DOCTYPE A [<!ENTITY b \"c\">]><A>&b;</A>", "<A>&other;</A>",
        "<A>&#xD800;</A>", "<A>&#x110000;</A>", "<A>&#;</A>", "<A>&amp</A>", "<A>&</A>",
        "<A><![CDATA[x</A>", "<A><![CDATA[x]]</A>", "<A><!ELEMENT b></A>", "<A></ A>", "< A></A>",
        "<!-- <A/>", "<?xml <A/>", "{\"Error\": 1}",
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

    // MARK: Beginnings

    @Test(arguments: [
        "", "</Error>", "<Message>", "<Message>cut", "<Message>&am", "<", "<!", "<![CDATA[", "<!DOCTYPE", "</Other>",
        "<Message>a & b</Message></Error>",
    ])
    func whatIsReadOfABeginning(_ rest: String) {
        let found = XMLTexts(beginning: Array("<?xml version=\"1.0\"?><Error><Code>Expired</Code>\(rest)".utf8))
        #expect(found["Error/Code"] == "Expired")
        #expect(found["Error/Message"] == nil)
    }

    @Test func aTextIsReadOnlyToItsEnd() {
        for part in ["<Error><Code>Expired", "<Error><Code>Expired</Co", "<Error><Code>Expired<"] {
            #expect(XMLTexts(beginning: Array(part.utf8)).first("Error/Code") == nil, "\(part)")
        }
    }

    @Test func aBeginningHasTheSameLimits() {
        let blanks = String(repeating: " ", count: XMLTexts.limitBytes)
        #expect(XMLTexts(beginning: Array("<A><B>1</B>\(blanks)<C>2</C></A>".utf8)).first("A/C") == nil)
        let deep = String(repeating: "<A>", count: XMLTexts.maximumDepth) + "<A>x</A>"
        let place = Array(repeating: "A", count: XMLTexts.maximumDepth + 1).joined(separator: "/")
        #expect(XMLTexts(beginning: Array(deep.utf8)).first(place) == nil)
        let wide = "<A>" + String(repeating: "<B/>", count: XMLTexts.maximumElements) + "<C>x</C>"
        #expect(XMLTexts(beginning: Array(wide.utf8)).first("A/C") == nil)
    }
}
