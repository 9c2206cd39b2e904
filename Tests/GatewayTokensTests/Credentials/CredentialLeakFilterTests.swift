import Testing

@testable import GatewayHTTP
@testable import GatewayTokens

@Suite("A credential that an answer repeats", .timeLimit(.minutes(5)))
struct CredentialLeakFilterTests {
    private static func rewrite(_ value: String, name: String = "api_key", secret: String = "s3cr et/+") -> String {
        rewrite(value, Injection(query: Injection.QueryParameter(name: name, value: Secret(secret))))
    }

    private static func rewrite(_ value: String, _ injection: Injection) -> String {
        switch CredentialLeakFilter(of: injection)?.rewrite(Array(value.utf8)) {
        case nil: "no echo"
        case .unchanged: "unchanged"
        case .dropped: "dropped"
        case .replaced(let bytes): String(decoding: bytes, as: UTF8.self)
        }
    }

    @Test(arguments: [
        "https://api.example.com/a?b=1", "/a", "", "?", "5; url=/a?b=1", "<https://a.example/?page=2>; rel=\"next\"",
        // Another value under the same name is not ours.
        "https://other.example/?api_key=theirs", "/a?api_key=", "/a?api_key", "/100%-sure?b=%zz",
    ])
    func whatHasNoSecretStaysAsItIs(_ value: String) { #expect(Self.rewrite(value) == "unchanged") }

    /// The secret is `S` in all of them.
    @Test(arguments: [
        ("/a?api_key=S", "/a"), ("/a?api_key=S#top", "/a#top"), ("/a?api_key=S&b=1", "/a?b=1"),
        ("/a?b=1&api_key=S", "/a?b=1"), ("/a?b=1&api_key=S&c=2", "/a?b=1&c=2"), ("/a?b=1&api_key=S#top", "/a?b=1#top"),
        // Some servers take a semicolon for a separator.
        ("/a?b=1;api_key=S;c=2", "/a?b=1;c=2"), ("/a?api_key=S;c=2", "/a?c=2"),
        // More than once, also in the fragment.
        ("/a?api_key=S&api_key=S&b=1", "/a?b=1"), ("/a?api_key=S#api_key=S", "/a"), ("/a#api_key=S&b=1", "/a#b=1"),
        ("/a?x=/b?api_key=S&c=1", "/a?x=/b?c=1"), ("/a?b&&api_key=S&", "/a?b&&"),
        // Encoded otherwise than it was sent.
        ("/a?api%5Fkey=%53", "/a"), ("/a?API_KEY=S", "/a"),
        // In the fields that hold more than a URI.
        ("5; url=/a?api_key=S", "5; url=/a"), ("0;URL='/a?api_key=S&b=1'", "0;URL='/a?b=1'"),
        ("5; url=\"/a?b=1&api_key=S\"", "5; url=\"/a?b=1\""),
        (
            "</a?api_key=S>; rel=next, </b?p=2&api_key=S>; rel=\"last\", </c>; rel=up",
            "</a>; rel=next, </b?p=2>; rel=\"last\", </c>; rel=up"
        ),
    ])
    func theParameterIsRemoved(_ value: String, _ expected: String) {
        // A secret that stands nowhere else in these values.
        let secret = "zQ7-9"
        func fill(_ text: String, _ value: String) -> String {
            text.replacing("=S", with: "=\(value)").replacing("%53", with: "%7aQ7%2D9")
        }
        #expect(Self.rewrite(fill(value, secret), secret: secret) == fill(expected, secret))
    }

    /// The secret is `s3cr et/+`, sent as `s3cr%20et%2F%2B`.
    @Test(arguments: [
        "s3cr%20et%2F%2B", "s3cr%20et%2f%2b", "s3cr+et%2F%2B", "s3cr%20et/%2B", "%73%33%63%72%20%65%74%2F%2B",
        "s3cr%20et/+",
    ])
    func everySpellingOfTheValueIsItsOwn(_ spelling: String) {
        #expect(Self.rewrite("/a?b=1&api_key=\(spelling)&c=2") == "/a?b=1&c=2")
    }

    @Test(arguments: [
        // Decoded, so that the URI ends within the secret.
        "/a?api_key=s3cr et/+",
        // Under another name, without a name, in the path, in the host, in the user name.
        "/a?token=s3cr%20et%2F%2B", "/a?s3cr%20et%2F%2B", "/a/s3cr%20et%2F%2B/b", "https://s3cr%20et%2F%2B@a.example/",
        "/a?api_key[]=s3cr%20et%2F%2B", "/a;api_key=s3cr%20et%2F%2B/b",
        // With more around it.
        "/a?api_key=Bearer%20s3cr%20et%2F%2B", "/a?api_key=s3cr%20et%2F%2B%0A",
        // Encoded twice and three times, and within another URI.
        "/a?api_key=s3cr%2520et%252F%252B", "/a?api_key=s3cr%252520et%25252F%25252B",
        "/login?next=%2Fa%3Fapi_key%3Ds3cr%2520et%252F%252B",
        // The parameter is removed, and the secret is there once more.
        "/a?api_key=s3cr%20et%2F%2B&next=s3cr+et%2F%2B", "/s3cr+et/+?api_key=s3cr%20et%2F%2B",
        // In another case, which some authorities take as well.
        "/a?token=S3CR%20ET%2F%2B",
        // Within a quoted string, with a backslash.
        "</a>; rel=next; title=\"s3cr e\\t/+\"",
        // Nothing else is left.
        "?api_key=s3cr%20et%2F%2B",
    ])
    func aFieldThatKeepsTheSecretIsDropped(_ value: String) { #expect(Self.rewrite(value) == "dropped") }

    @Test func aSecretWithDelimitersIsFound() {
        let secret = "a&b;c#d?e%41\"f"
        #expect(Self.rewrite("/x?api_key=a%26b%3Bc%23d%3Fe%2541%22f&y=1", secret: secret) == "/x?y=1")
        #expect(Self.rewrite("/x?api_key=a&b;c#d?e%41\"f", secret: secret) == "dropped")
    }

    @Test func endlessEncodingIsNotFollowed() {
        let value = "/a?b=%" + String(repeating: "25", count: 5000) + "41"
        #expect(Self.rewrite(value) == "dropped")
        #expect(Self.rewrite("/a?b=%252541") == "unchanged")
    }

    @Test(arguments: ["Location", "content-location", "REFRESH", "Link"])
    func theFieldsAreRecognized(_ name: String) {
        #expect(FieldKind.uriReferenceNames.contains(Array(name.lowercased().utf8)))
    }

    // MARK: In the path

    private static func path(_ template: String, _ token: String) -> Injection {
        let value = template.replacing("{{token}}", with: PercentEncoding.encode(segment: token))
        return Injection(path: Injection.Path(template: template, value: Secret(value), secret: Secret(token)))
    }

    /// The token is `1:aB` in all of them.
    @Test(arguments: [
        ("/a?b=1", "unchanged"), ("https://api.example.com/bot2:aB/x", "unchanged"),
        ("/bot1:aB/getMe", "/getMe"), ("/bot1%3AaB/getMe", "/getMe"), ("/bot1%3aab/getMe?x=1", "/getMe?x=1"),
        ("https://api.example.com/bot1:aB/x", "https://api.example.com/x"),
        ("//api.example.com/bot1:aB/x", "//api.example.com/x"),
        ("https://api.example.com/bot1:aB", "https://api.example.com"),
        ("/base/bot1:aB/x", "/base/x"), ("/bot1:aB", "/"), ("/bot1:aB?x", "/?x"), ("/base/bot1:aB#x", "/base#x"),
        ("</bot1:aB/x>; rel=next, </bot1:aB>; rel=up", "</x>; rel=next, </>; rel=up"),
        ("5; url=/bot1:aB/x", "5; url=/x"), ("0; url='/bot1:aB'", "0; url='/'"),
        // What cannot be taken out is left out.
        ("/xbot1:aB/x", "dropped"), ("/bot1:aBx/x", "dropped"), ("bot1:aB/x", "dropped"), ("/x?token=1:aB", "dropped"),
        ("/bot1:aB/x?again=1%253AaB", "dropped"),
        // The rest would name a server.
        ("/bot1:aB//other.example", "dropped"), ("/bot1:aB/\\other.example", "dropped"),
        ("/bot1:aB/\t/other.example", "dropped"),
    ])
    func aTokenInThePathIsTakenOut(_ value: String, _ expected: String) {
        #expect(Self.rewrite(value, Self.path("/bot{{token}}", "1:aB")) == expected)
    }

    @Test(arguments: [
        ("/v1/s%20t/x/y", "/y"), ("/v1/s%20t/z", "dropped"), ("/v1/other/x", "unchanged"), ("/v1/s+t/x", "/"),
    ])
    func aPathOfSeveralSegmentsIsTakenOutWhole(_ value: String, _ expected: String) {
        #expect(Self.rewrite(value, Self.path("/v1/{{token}}/x", "s t")) == expected)
    }

    @Test func whereNoTargetHasTheCredentialNothingIsLookedFor() {
        let field = Injection.Field(name: "Authorization", value: Secret("s"))
        #expect(Self.rewrite("/s", Injection(fields: [field])) == "no echo")
    }

    // MARK: Encoded too often

    /// The text, which is percent-encoded once, encoded this many times.
    private static func encoded(_ text: String, times: Int) -> String {
        text.replacing("%", with: "%" + String(repeating: "25", count: times - 1))
    }

    @Test func whatIsEncodedTooOftenIsDropped() {
        let most = CredentialLeakFilter.maximumDecodings
        for times in 1..<most { #expect(Self.rewrite("/a?b=" + Self.encoded("%41", times: times)) == "unchanged") }
        for times in most...(most + 3) {
            #expect(Self.rewrite("/a?b=" + Self.encoded("%41", times: times)) == "dropped")
        }
    }

    @Test(arguments: 1...12) func noNumberOfEncodingsHidesASecret(_ times: Int) {
        #expect(Self.rewrite("/a?x=" + Self.encoded("s3cr%20et%2F%2B", times: times)) == "dropped")
    }
}
