import GatewayHTTP
import Testing

@Suite("Commands for people", .timeLimit(.minutes(5)))
struct GatewayCommandTests {
    @Test func plainNamesStayAsTheyAre() {
        #expect(GatewayCommand.line("token", "clear", "box-service_2.x") == "authgateway token clear box-service_2.x")
    }

    @Test(arguments: [
        "reg[http://127.0.0.1/token?a&touch/x&/tmp/evil&&service=s]", "app-user[42]", "a b", "it's", "$(id)", "`id`",
        "a;b", "a|b", "a>b", "a*", "~", "#a", "a\"b", "a\\b", "!a", "{a,b}", "", "&", "a\tb",
    ])
    func aShellReadsANameAsOneWord(_ name: String) throws {
        let line = GatewayCommand.line("token", "clear", name)
        let read = try ShellWords(line)
        #expect(read.words == ["authgateway", "token", "clear", name])
        #expect(read.end == nil && read.variables.isEmpty)
    }

    /// Each printable character of ASCII, in the middle of a name.
    @Test func noCharacterMeansAnythingToAShell() throws {
        for byte in UInt8(0x20)...0x7E {
            let name = "reg[a\(Character(UnicodeScalar(byte)))b]"
            #expect(try ShellWords(GatewayCommand.line("login", name)).words == ["authgateway", "login", name])
        }
    }
}
