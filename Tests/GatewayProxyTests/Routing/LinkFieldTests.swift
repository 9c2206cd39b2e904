import Testing

@testable import GatewayHTTP
@testable import GatewayProxy
@testable import GatewayTesting
@testable import GatewayTokens

@Suite("Fields with links", .timeLimit(.minutes(5)))
struct LinkFieldTests {
    @Test(arguments: [
        (
            "<https://up.example/v2/items?page=2>; rel=\"next\"",
            "<http://gw.example:8080/api/items?page=2>; rel=\"next\""
        ),
        (
            "</v2/a>;rel=next,<https://other.example/b>; rel=last, <https://up.example/v2/c,d>",
            "</api/a>;rel=next,<https://other.example/b>; rel=last, <http://gw.example:8080/api/c,d>"
        ),
        // Not within a quoted text.
        ("</v2/a>; title=\"<https://up.example/v2/b>, \\\"<\"", "</api/a>; title=\"<https://up.example/v2/b>, \\\"<\""),
        ("<https://other.example/a>", "unchanged"), ("<https://up.example/v2/a", "unchanged"),
        ("</v2/a>; title=\"open", "unchanged"), ("https://up.example/v2/a", "unchanged"), ("", "unchanged"),
    ])
    func eachReferenceOfALinkIsRewritten(_ value: String, _ expected: String) {
        #expect(LinkFixture().field("Link", value) == expected)
    }

    @Test(arguments: [
        ("5; url=https://up.example/v2/a", "5; url=http://gw.example:8080/api/a"), ("0;URL='/v2/a'", "0;URL='/api/a'"),
        ("1.5 , Url = \"/v2/a\"", "1.5 , Url = \"/api/a\""), ("5", "unchanged"), ("5; /v2/a", "unchanged"),
        ("url=/v2/a", "unchanged"), ("0; url='/v2/a", "unchanged"), ("0; url", "unchanged"), ("", "unchanged"),
        ("0; url=https://other.example/", "unchanged"),
    ])
    func aRefreshIsRewritten(_ value: String, _ expected: String) {
        #expect(LinkFixture().field("Refresh", value) == expected)
    }

    @Test(arguments: [
        ("s=1; Path=/; HttpOnly", "s=1; Path=/api; HttpOnly"), ("s=1; path=/v2", "s=1; path=/api"),
        ("s=1;Path=/v2/a/; Secure", "s=1;Path=/api/a/; Secure"), ("s=1; Path=/v2x", "s=1; Path=/api/v2x"),
        ("s=1; Path=/other", "s=1; Path=/api/other"), ("s=1; Path=/api/a", "unchanged"),
        ("s=1; Path=/apix", "s=1; Path=/api/apix"),
        ("s=1; Domain=up.example; Path=/api", "s=1; Path=/api"), ("s=1; domain=.Example", "s=1"),
        ("s=1; Domain=other.example", "unchanged"), ("s=1; Domain=p.example", "unchanged"), ("s=1", "unchanged"),
        ("s=Path=/v2", "unchanged"), ("s=1; Path=v2", "unchanged"), ("s=1; Path", "unchanged"), ("", "unchanged"),
    ])
    func aCookieStaysWithItsRoute(_ value: String, _ expected: String) {
        #expect(LinkFixture().field("Set-Cookie", value) == expected)
    }

    /// By itself a client takes the directory: all of the gateway.
    @Test(arguments: [
        ("s=1", "s=1; Path=/api"), ("s=1; Path=x", "s=1; Path=x; Path=/api"), ("s=1; Path=/", "s=1; Path=/api"),
    ])
    func aCookieOfTheRoutesOwnPathIsForTheRoute(_ value: String, _ expected: String) {
        var fixture = LinkFixture()
        fixture.line = "GET /api HTTP/1.1"
        #expect(fixture.field("Set-Cookie", value) == expected)
    }

    // MARK: In a head

    private static func head(_ fields: [String], policy: ResponsePolicy = ResponsePolicy()) -> (
        lines: [String], room: Int?
    )? {
        guard let links = LinkFixture().rewriter() else { return nil }
        let rules = ResponseFieldRules(credentialNames: [], policy: policy)
        return HeadText.response(200, fields) { head, bytes in
            var (lines, index) = ([String](), 0)
            while let piece = rules.next(of: head, bytes, knowsChunks: true, links: links, from: &index) {
                switch piece {
                case .kept(let run): lines.append(bytes.string(head.section.lines(run)).replacing("\r\n", with: "|"))
                case .rewritten(let field, let value):
                    lines.append("\(bytes.string(field.name)): \(String(decoding: value, as: UTF8.self))")
                case .droppedCookie: lines.append("dropped")
                }
            }
            return (lines, links.room(for: head, bytes))
        }
    }

    @Test func onlyFieldsWithLinksAreRewritten() {
        let fields = ["A: /v2/a", "Location: /v2/a", "B: 1", "C: 2", "Set-Cookie: s=1; Path=/"]
        #expect(
            Self.head(fields)?.lines == ["A: /v2/a|", "Location: /api/a", "B: 1|C: 2|", "Set-Cookie: s=1; Path=/api"]
        )
        #expect(Self.head(fields, policy: ResponsePolicy(cookies: .drop))?.lines.last == "dropped")
    }

    @Test func theCredentialOfTheQueryIsTakenAwayBefore() {
        let policy = ResponsePolicy(
            echo: CredentialLeakFilter(
                of: Injection(query: Injection.QueryParameter(name: "key", value: Secret("s3cret")))
            )
        )
        #expect(Self.head(["Location: /v2/a?key=s3cret"], policy: policy)?.lines == ["Location: /api/a"])
        #expect(Self.head(["Location: /v2/s3cret"], policy: policy)?.lines == [])
        #expect(
            Self.head(["Location: https://other.example/?key=s3cret&a"], policy: policy)?.lines == [
                "Location: https://other.example/?a"
            ]
        )
    }

    @Test func thereIsRoomForWhatIsWrittenAndNotForAnyNumber() {
        let link = (0..<100).map { "</v2/\($0)>" }.joined(separator: ",")
        let rewritten = LinkFixture().field("Link", link)
        let room = Self.head(["Link: \(link)"])?.room
        #expect((rewritten?.utf8.count ?? 0) - link.utf8.count <= room ?? 0)
        let many = String(repeating: "<>", count: 4000)
        #expect(Self.head(["Link: \(many)"])?.room == nil)
        for value in ["8", "../../x", "//other.example/a", "/x", "https://up.example/v2", "../"] {
            let grown = (LinkFixture().location(value)?.utf8.count ?? 0) - value.utf8.count
            #expect(grown <= Self.head(["Location: \(value)"])?.room ?? 0)
        }
    }

    @Test func aHeadSaysWhetherItHasLinks() {
        func has(_ field: String) -> [Bool]? {
            HeadText.response(200, [field]) { head, _ in [head.hasLinks, head.hasCookies] }
        }
        for name in ["Location", "content-location", "LINK", "Refresh"] { #expect(has("\(name): /") == [true, false]) }
        #expect(has("Set-Cookie: a") == [false, true])
        #expect(has("Server: a") == [false, false])
    }

    @Test func theRoomForRewrittenFieldsIsLimited() throws {
        let link = try #require(Self.head(["Link: x"])?.room)
        let cookie = try #require(Self.head(["Set-Cookie: a"])?.room)
        /// Fields that need exactly this much room.
        func fields(_ room: Int) -> [String]? {
            for links in 1...(room / link) where (room - links * link) % cookie == 0 {
                let attributes = (room - links * link) / cookie
                guard attributes > 0, links + attributes < 9000 else { continue }
                return [
                    "Link: \(String(repeating: "<", count: links))",
                    "Set-Cookie: \(String(repeating: ";", count: attributes - 1))",
                ]
            }
            return nil
        }
        let most = try #require(fields(LinkRewriter.maximumRoom))
        let more = try #require(fields(LinkRewriter.maximumRoom + 1))
        #expect(Self.head(most)?.room == LinkRewriter.maximumRoom)
        #expect(try #require(Self.head(more)).room == nil)
    }
}
