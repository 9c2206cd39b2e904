import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("Explain input", .timeLimit(.minutes(5)))
struct ExplainInputTests {
    private static func request(_ text: String) throws -> DescribedRequest {
        guard case .request(let request) = try ExplainInput(text, knowsHost: { $0 == "box.localhost" }) else {
            throw UnusableInput("an id")
        }
        return request
    }

    @Test(arguments: [
        ("http://127.0.0.1:8080/box/a?x=1#part", "GET", "127.0.0.1:8080", "/box/a", "?x=1"),
        ("POST https://api.box.com/2.0", "POST", "api.box.com", "/2.0", ""),
        ("  PATCH\n http://a.example/ ", "PATCH", "a.example", "/", ""),
        ("/box/a", "GET", "", "/box/a", ""),
        ("127.0.0.1:8080/box", "GET", "127.0.0.1:8080", "/box", ""),
        ("box.localhost", "GET", "box.localhost", "", ""),
        ("localhost", "GET", "localhost", "", ""),
        ("127.0.0.1", "GET", "127.0.0.1", "", ""),
        ("http://[::1]:8080/a?b", "GET", "[::1]:8080", "/a", "?b"),
        ("http://a/?q=it's&b=2", "GET", "a", "/", "?q=it's&b=2"),
    ])
    func aURLIsTakenApart(_ text: String, _ method: String, _ authority: String, _ path: String, _ query: String) throws
    {
        let request = try Self.request(text)
        #expect(request.method == method && request.url.authority == authority)
        #expect(request.url.path == path && request.url.query == query)
    }

    @Test(arguments: ["a1b2c3-1f", "mine-1", "abc.def_1", "GET"])
    func aWordIsTheIDOfARequest(_ text: String) throws {
        #expect(try ExplainInput(text) == .requestID(text))
    }

    @Test(arguments: [
        ("", "nothing to explain"), ("a b c", "neither"), ("ftp://a/b", "not ftp"), ("http:///a", "names no host"),
        ("GET http://a/\u{1}", "control characters"), ("curl -H 'a", "never closed"), ("curl -s", "has no URL"),
        ("curl -X", "lacks its value"), ("curl /a", "names no host"),
    ])
    func whatCannotBeReadIsSaid(_ text: String, _ part: String) {
        #expect { try ExplainInput(text) } throws: { ($0 as? UnusableInput)?.message.contains(part) ?? false }
    }

    @Test func tooMuchIsRefused() {
        #expect(throws: UnusableInput.self) {
            try ExplainInput("curl http://a/ -d " + String(repeating: "a", count: 70_000))
        }
    }

    // MARK: curl

    @Test(arguments: [
        ("curl http://a/", "GET"), ("curl -I http://a/", "HEAD"), ("curl -d x http://a/", "POST"),
        ("curl -G -d x=1 http://a/", "GET"), ("curl -X DELETE http://a/", "DELETE"),
        ("curl -XPUT -d x http://a/", "PUT"), ("curl --json '{}' http://a/", "POST"),
        ("curl -T file http://a/", "PUT"), ("curl -sSLIk http://a/", "HEAD"), ("curl -F a=b http://a/", "POST"),
        ("curl --request PATCH --url http://a/", "PATCH"), ("$ TOKEN=x /usr/bin/curl -X OPTIONS http://a/", "OPTIONS"),
    ])
    func theMethodIsTheOneThatCurlUses(_ text: String, _ method: String) throws {
        #expect(try Self.request(text).method == method)
    }

    private static func fields(_ text: String) throws -> [String] {
        try request(text).fields.map { "\($0.name): \($0.value)" }
    }

    @Test func fieldsAreThoseThatCurlSends() throws {
        #expect(try Self.fields("curl http://a/") == ["User-Agent: curl", "Accept: */*"])
        let text =
            "curl -H 'Accept: text/x' -H User-Agent: -H 'X-Empty;' -A me -u 'a:b' -b k=v -e http://r/ -r 0-9 http://a/"
        #expect(
            try Self.fields(text) == [
                "Authorization: Basic YTpi", "Cookie: k=v", "Referer: http://r/", "Range: bytes=0-9",
                "Accept: text/x", "X-Empty: ",
            ]
        )
        #expect(
            try Self.fields("curl --json '{}' --oauth2-bearer t http://a/") == [
                "User-Agent: curl", "Authorization: Bearer t", "Content-Type: application/json",
                "Accept: application/json",
            ]
        )
        #expect(try Self.fields("curl http://me:p%40ss@a/").first == "Authorization: Basic bWU6cEBzcw==")
        #expect(try Self.request("curl -H 'Host: other' http://a/").host == "other")
    }

    @Test func contentIsPutTogether() throws {
        let request = try Self.request("curl -d a=1 --data-raw @b --data-urlencode 'c=d e' http://a/")
        #expect(request.content == ["a=1", "&", "@b", "&", "c=d%20e"].map { .text($0) })
        #expect(request.contentLength == 14 && request.files.isEmpty)
        let file = try Self.request("curl -d @f --data-binary @g http://a/")
        #expect(file.contentLength == nil && file.files == ["f", "g"])
        #expect(try Self.request("curl -G -d a=1 -d b=2 'http://a/?c=3'").url.query == "?c=3&a=1&b=2")
    }

    @Test(arguments: [
        ("http://a/b/../c/./d", "/c/d"), ("http://a/b/..", "/"), ("http://a/../..", "/"), ("http://a/b/.", "/b/"),
        ("--path-as-is http://a/b/../c", "/b/../c"), ("http://a", ""),
    ])
    func dotSegmentsAreRemovedAsByCurl(_ text: String, _ path: String) throws {
        #expect(try Self.request("curl \(text)").url.path == path)
    }

    @Test func theProxyIsKnown() throws {
        let request = try Self.request("curl -x http://ci:secret@127.0.0.1:8080 http://api.box.com/2.0")
        #expect(request.proxy == "127.0.0.1:8080")
        #expect(request.fields.contains { $0.name == "Proxy-Authorization" && $0.value == "Basic Y2k6c2VjcmV0" })
        #expect(try Self.request("curl --proxy gw:1 http://a/").proxy == "gw:1")
        #expect(try Self.request("curl --unix-socket /run/gw http://a/").socket == "/run/gw")
    }

    @Test(arguments: [
        ("curl --frobnicate http://a/", "--frobnicate"), ("curl --foo bar http://a/", "--foo"),
        ("curl -y 1 -1 http://a/", "-1"), ("curl http://a/ http://b/", "first of 2"),
        ("curl -H \"A: $TOKEN\" http://a/", "$TOKEN"), ("curl http://a/?b&c", "quotation marks"),
        ("curl http://a/ | jq", "would end the command at the |"), ("curl -H @file http://a/", "were not read"),
        ("curl -b jar http://a/", "were not read"), ("curl http://a/ --next http://b/", "before --next"),
        ("curl --resolve a:80:127.0.0.1 http://a/", "--resolve"), ("curl -H $'A: b\\nC: d' http://a/", "left out"),
    ])
    func whatIsNotTakenIsSaid(_ text: String, _ part: String) throws {
        let request = try Self.request(text)
        #expect(request.url.authority == "a")
        #expect(request.remarks.contains { $0.contains(part) }, "\(request.remarks)")
        #expect(!request.fields.contains { $0.value.contains("\n") })
    }
}
