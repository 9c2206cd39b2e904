import Testing

@testable import GatewayConfiguration

@Suite("Unknown names", .timeLimit(.minutes(5)))
struct UnknownNameTests {
    private func message(_ name: String, _ known: [String]) -> String? {
        UnknownName.message(name, kind: "route", in: "the log", known: known)
    }

    @Test func aKnownNameIsFine() { #expect(message("files", ["mail", "files"]) == nil) }

    @Test func theNameThatWasProbablyMeantIsNamed() {
        #expect(
            message("flies", ["mail", "files"]) == "there is no route \"flies\" in the log; did you mean \"files\"?"
        )
    }

    @Test func withoutOneThatIsNearAllAreNamed() {
        #expect(message("x", ["mail", "files", "mail"]) == "there is no route \"x\" in the log; it knows files, mail")
        #expect(message("x", []) == "there is no route \"x\" in the log")
        let many = (10..<40).map { "route\($0)" }
        #expect(message("x", many)?.hasSuffix("route29 and 10 more") == true)
    }

    @Test func aNameCannotForgeALine() {
        #expect(message("a\nb", ["q\u{1B}[31m"]) == "there is no route \"a?b\" in the log; it knows q?[31m")
        #expect(message(String(repeating: "x", count: 1000), [])?.utf8.count ?? 0 < 200)
    }

    @Test(arguments: [("box[user:42]", "box"), ("box", "box"), ("box[", "box["), ("box]", "box]"), ("[x]", "")])
    func aSubjectIsNoPartOfTheName(_ name: String, _ base: String) {
        #expect(UnknownName.base(ofCredential: name) == base)
    }
}

@Suite("Command suggestion", .timeLimit(.minutes(5)))
struct CommandSuggestionTests {
    private static let paths = [
        ["run"], ["check"], ["status"], ["audit"], ["audit", "tail"], ["audit", "query"], ["config"],
        ["config", "explain"],
    ]

    @Test(arguments: [
        (["statsu"], "authgateway status"),
        (["chek", "--json"], "authgateway check"),
        (["chekc"], "authgateway check"),
        (["audit", "tial"], "authgateway audit tail"),
        (["audti", "tail"], "authgateway audit tail"),
        (["audti", "tial", "-f"], "authgateway audit tail"),
        (["audti", "frob"], "authgateway audit"),
        (["audti", "--path", "tail"], "authgateway audit"),
        (["logs", "query"], "authgateway audit tail"),
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
