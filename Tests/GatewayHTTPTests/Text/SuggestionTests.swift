import GatewayHTTP
import Testing

@Suite("What was probably meant", .timeLimit(.minutes(5)))
struct SuggestionTests {
    @Test(arguments: [
        ("htps://api.example.com", "https"), ("htttps://api.example.com", "https"),
        ("htp://127.0.0.1", "http"), ("https:/api.example.com", "https"), ("https//api.example.com", "https"),
    ])
    func aMisspeltSchemeIsCorrected(_ text: String, _ scheme: String) {
        #expect(Suggestion.scheme(of: text) == "; did you mean \"\(scheme)://\"?")
    }

    @Test(arguments: ["https://api.example.com", "HTTP://a.example", "ftp://a.example", "api.example.com", "//a", ""])
    func anythingElseIsNot(_ text: String) {
        #expect(Suggestion.scheme(of: text) == "")
    }

    @Test(arguments: [
        ("clientId", "client_id"), ("client-id", "client_id"), ("cleint_id", "client_id"), ("clent_id", "client_id"),
        ("clientt_id", "client_id"), ("cliemt_id", "client_id"), ("cl_inet_di", "client_id"), ("caf\u{E9}", "cafe"),
        ("cafe", "caf\u{E9}"), ("A", "b"), ("", "_"),
    ])
    func aNearWordIsFound(_ word: String, _ meant: String) {
        #expect(Suggestion.nearest(to: word, in: ["something_else", meant, "and_one_more"]) == meant)
    }

    @Test(arguments: [
        ("client_id", "scope"), ("ab", "cd"), ("", "ab"), ("clxxxt_xd", "client_id"), ("token", "token_url_of_all"),
        (String(repeating: "a", count: 65), String(repeating: "a", count: 65)),
    ])
    func aFarOneIsNot(_ word: String, _ other: String) {
        #expect(Suggestion.nearest(to: word, in: [other]) == nil)
    }

    @Test func theNearestIsNamedAndTheFirstOfSeveral() {
        #expect(Suggestion.nearest(to: "service-1", in: ["service-22", "service-2", "service-3"]) == "service-2")
        #expect(Suggestion.nearest(to: "service-1", in: ["service-2", "service_1", "service-1"]) == "service_1")
        #expect(Suggestion.hint(for: "servce", in: ["service"]) == "; did you mean \"service\"?")
        #expect(Suggestion.hint(for: "servce", in: []) == "")
    }

    /// With the definition of the distance, letter by letter.
    @Test func itIsTheDistanceOfTheDefinition() {
        func distance(_ a: ArraySlice<Character>, _ b: ArraySlice<Character>) -> Int {
            guard let x = a.last, let y = b.last else { return max(a.count, b.count) }
            let (less, fewer) = (a.dropLast(), b.dropLast())
            var cost = min(distance(less, b) + 1, distance(a, fewer) + 1, distance(less, fewer) + (x == y ? 0 : 1))
            if less.last == y, fewer.last == x { cost = min(cost, distance(less.dropLast(), fewer.dropLast()) + 1) }
            return cost
        }
        var words = [""]
        for length in 1...4 { words += words.filter { $0.count == length - 1 }.flatMap { [$0 + "a", $0 + "b"] } }
        for word in words {
            for other in words {
                let limit = max(1, min(word.count, other.count) / 3)
                let isNear = distance(Array(word)[...], Array(other)[...]) <= limit
                #expect((Suggestion.nearest(to: word, in: [other]) != nil) == isNear, "\(word) and \(other)")
            }
        }
    }
}
