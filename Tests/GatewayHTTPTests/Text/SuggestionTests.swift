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
}
