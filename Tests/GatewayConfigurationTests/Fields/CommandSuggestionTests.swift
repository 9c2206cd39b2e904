import GatewayConfiguration
import Testing

@Suite("Command suggestion", .timeLimit(.minutes(5)))
struct CommandSuggestionTests {
    private static let paths = [
        ["run"], ["check"], ["status"], ["audit"], ["audit", "tail"], ["audit", "query"], ["config"],
        ["config", "explain"],
    ]

    @Test(arguments: [
        (["statsu"], "authgateway status"),
        (["chek", "--json"], "authgateway check"),
        (["audit", "tial"], "authgateway audit tail"),
        (["validate"], "authgateway check"),
        (["start"], "authgateway run"),
        (["explain", "limits"], "authgateway config explain"),
        (["status", "x"], nil),
        (["audit", "frob"], nil),
        (["--frob"], nil),
        (["help", "x"], nil),
        ([], nil),
    ])
    func theCommandThatWasProbablyMeantIsNamed(_ arguments: [String], _ suggestion: String?) {
        let found = CommandSuggestion.suggestion(for: arguments, of: "authgateway", among: Self.paths)
        #expect(found == suggestion)
    }
}
