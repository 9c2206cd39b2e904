import Testing

@testable import GatewayTokens

@Suite("Path templates", .timeLimit(.minutes(5)))
struct PathTemplateTests {
    private func template(_ path: String, _ method: String = "GET", seed: UInt64 = 0) -> PathTemplate {
        let bytes = Array("\(method) \(path)".utf8)
        let end = method.utf8.count
        return PathTemplate(bytes.span, method: 0..<end, path: end + 1..<bytes.count, seed: seed)
    }

    @Test(arguments: [
        ("/users/42", "/users/7"),
        ("/users/42/", "/users/7/"),
        ("/users/42/files/9", "/users/1/files/100000000"),
        ("/2.0/files/1234567890/content", "/2.0/files/99/content"),
        ("/days/2024-01-31", "/days/2025-12-01"),
        ("/orders/450789469.json", "/orders/1.json"),
        ("/orders/42:cancel", "/orders/43:cancel"),
        ("/odata/Items(42)/Name", "/odata/Items(7)/Name"),
        ("/f/0199a2b4-7c1e-7d33-9b7e-2f6a5c4d3e21", "/f/6fa459ea-ee8a-3ca4-894e-db77e160355e"),
        ("/f/6FA459EA-EE8A-3CA4-894E-DB77E160355E", "/f/12345678"),
        ("/commits/0199a2f3c4", "/commits/deadbee7"),
        ("/d/1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms", "/d/12"),
        ("/customers/cus_9s6XKzkNRiz8i3", "/customers/cus_8t7YLzlOSja9j4"),
        ("/channels/U02ABC123", "/channels/U99XYZ777"),
        ("/t/eyJhbGciOiJIUzI1NiJ9", "/t/eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ"),
    ])
    func anIdentifierIsAPlaceholder(_ one: String, _ other: String) {
        #expect(template(one) == template(other))
    }

    @Test(arguments: [
        ("/users/42", "/users/42/"),
        ("/users/42", "/users/me"),
        ("/users/42", "/groups/42"),
        ("/users/42", "/users"),
        ("/users/42", "/users/42/files"),
        ("/users/42/files", "/users/files/42"),
        ("/orders/42.json", "/orders/42.xml"),
        ("/orders/42:cancel", "/orders/42:archive"),
        ("/v1/users", "/v2/users"),
        ("/oauth2/token", "/oauth1/token"),
        ("/users/alice", "/users/bob"),
        ("/facade/1", "/decade/1"),
        ("/ab", "/a/b"),
        ("/", "//"),
        ("", "/"),
    ])
    func namesTellPathsApart(_ one: String, _ other: String) {
        #expect(template(one) != template(other))
    }

    private static func text(_ path: String) -> String {
        let bytes = Array("GET \(path)".utf8)
        return PathTemplate.text(bytes.span, path: 4..<bytes.count)
    }

    @Test(arguments: [
        ("/users/42/files/9", "/users/{id}/files/{id}"),
        ("/2.0/files/1234567890/content", "/2.0/files/{id}/content"),
        ("/box/v1.2.3/me", "/box/v1.2.3/me"), ("/2.0", "/2.0"), ("/v2/a", "/v2/a"), ("/2.0.json", "/{id}.{id}.json"),
        ("/1.2.3.4/a", "/{id}.{id}.{id}.{id}/a"), ("/2024.11/a", "/{id}.{id}/a"), ("/2.", "/{id}."),
        ("/projects/group%2Fname/issues", "/projects/group%2Fname/issues"), ("/a%2f42", "/a%2f{id}"),
        ("/a%2", "/{id}"), ("/a%252Fb", "/{id}"), ("/a;token=hunter%2Ftwo/b", "/a;token={id}%2F{id}/b"),
        ("/orders/450789469.json", "/orders/{id}.json"),
        ("/odata/Items(42)/Name", "/odata/Items({id})/Name"),
        ("/v1/users/me", "/v1/users/me"),
        ("/getUserAuthenticationPolicies", "/getUserAuthenticationPolicies"),
        ("/bot110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/getMe", "/{id}:{id}/getMe"),
        ("/t/eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.dBjftJeZ4CVPmB92K27uhbUJU1p1r_wW", "/t/{id}.{id}.{id}"),
        ("/services/T00000000/B00000000/XqKpZwRtYbNmLsDfGhJkVcXz", "/services/{id}/{id}/{id}"),
        ("/users/alice@example.com/inbox", "/users/{id}.com/inbox"),
        ("/files/My%20Secret%20Plan", "/files/{id}"),
        ("/a;token=hunter/b", "/a;token={id}/b"),
        // Random letters of one case, as keys of AWS and passwords of applications have them.
        ("/keys/AKIAIQZRTKWPXMVBNDGH/x", "/keys/{id}/x"), ("/app/qwhdkjashdkjashd", "/app/{id}"),
        ("/internationalization/synchronizations", "/internationalization/synchronizations"),
        ("/name/é", "/name/{id}"),
        ("/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "/{id}"),
        ("", ""),
        ("/", "/"),
        ("//", "//"),
        ("*", "*"),
    ])
    func aTextLeavesOutIdentifiersAndSecrets(_ path: String, _ expected: String) {
        #expect(Self.text(path) == expected)
    }

    @Test func aTextIsBounded() {
        let long = Self.text(String(repeating: "/folder", count: 1000))
        #expect(long.hasSuffix("/folder…") && long.utf8.count < 250)
        #expect(Self.text(String(repeating: "/", count: 10_000)).utf8.count < 250)
    }

    /// What has one hash has one text, so that a person can tell from it what was taken for the same.
    @Test(arguments: [
        ("/users/42", "/users/7"), ("/orders/42:cancel", "/orders/43:cancel"),
        ("/commits/0199a2f3c4", "/commits/deadbee7"),
        ("/customers/cus_9s6XKzkNRiz8i3", "/customers/cus_8t7YLzlOSja9j4"),
    ])
    func oneHashHasOneText(_ one: String, _ other: String) {
        #expect(template(one) == template(other))
        #expect(Self.text(one) == Self.text(other))
    }

    @Test func theMethodTellsRequestsApart() {
        #expect(template("/users/42") != template("/users/42", "POST"))
        #expect(template("/x", "GET") != template("x", "GET/"))
    }

    @Test func theSeedDecidesAboutTheHash() {
        #expect(template("/users/42", seed: 1) == template("/users/7", seed: 1))
        #expect(template("/users/42", seed: 1) != template("/users/42", seed: 2))
    }

    @Test func manyNamesHaveManyHashes() {
        let names = (0..<20_000).map { number in
            String(number, radix: 17).map { "abcdefghijklmnopq"[$0.hexDigitValue ?? 16] }.joined()
        }
        #expect(Set(names).count == 20_000)
        let templates = Set(names.map { template("/api/\($0)") })
        #expect(templates.count == 20_000)
        // The table of confirmed templates takes the upper bits.
        #expect(Set(templates.map { $0.hash >> 55 }).count == 512)
    }
}

extension String {
    fileprivate subscript(_ place: Int) -> String { String(self[index(startIndex, offsetBy: place)]) }
}
