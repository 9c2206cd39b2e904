import ArgumentParser
import GatewayApp
import Testing

@testable import GatewayTools

@Suite("The command line", .timeLimit(.minutes(1)))
struct CommandLineTests {
    @Test func helpNamesTheGroupsInTheirOrder() {
        let lines = HelpText.laidOut(RootCommand.helpMessage(columns: 80)).split(separator: "\n")
        let headings = lines.filter { $0.hasSuffix(":") && $0.allSatisfy { $0.isUppercase || $0 == ":" } }
        #expect(
            headings == [
                "OPTIONS:", "SERVE:", "CONFIGURE:", "TOKENS:", "OBSERVE:", "TRUST:", "STATE:", "PROGRAM:",
            ]
        )
        #expect(lines.contains("  -v, --version           Show the version."))
        #expect(lines.allSatisfy { $0.count <= 80 })
        let names = RootCommand.configuration.subcommands.compactMap { $0.configuration.commandName }
        #expect(Set(names).count == names.count && names.count == 32)
    }

    @Test func noLineOfHelpIsTooLong() {
        var left: [any ParsableCommand.Type] = [RootCommand.self]
        var count = 0
        while let command = left.popLast() {
            let text = HelpText.laidOut(RootCommand.helpMessage(for: command, columns: 80))
            for line in text.split(separator: "\n") { #expect(line.count <= 100, "\(command)") }
            left += command.configuration.subcommands
            count += 1
        }
        #expect(count > 60)
    }

    @Test func usageIsBrokenBetweenOptions() {
        let text = """
            Error: Unknown option '--x'
            Usage: authgateway exec [--config <file>] [--client <name>] [--client-token-file <file>] [--ephemeral] -- [<command> ...]
              See 'authgateway exec --help' for more information.
            """
        #expect(
            HelpText.laidOut(text) == """
                Error: Unknown option '--x'
                Usage: authgateway exec [--config <file>] [--client <name>]
                       [--client-token-file <file>] [--ephemeral] -- [<command> ...]
                  See 'authgateway exec --help' for more information.
                """
        )
        #expect(HelpText.laidOut("nothing of it\n") == "nothing of it\n")
    }

    @Test(arguments: [
        ("Error: Unknown option '--hlep'\nUsage: x", "--help"), ("Error: Unknown option '--verison'", "--version"),
        ("Error: Unknown option '--frob'\nUsage: x", nil), ("Error: Unknown option '-h'", nil),
        ("Error: Unknown option '--confg'. Did you mean '--config'?", nil), ("", nil),
    ])
    func theOptionsThatEachCommandHasAreSuggested(_ error: String, _ option: String?) {
        #expect(HelpText.option(meantBy: error) == option)
    }

    @Test(arguments: [
        ([], false), (["--json"], true), (["-o", "json"], true), (["-o", "text"], false),
        (["--json", "-o", "json"], true),
    ])
    func jsonHasTwoSpellings(_ arguments: [String], _ isOn: Bool) throws {
        #expect(try VersionCommand.parse(arguments).json.isOn == isOn)
    }

    @Test(arguments: [["-o"], ["-o", "yaml"], ["--json", "-o", "text"]])
    func otherFormatsAreRefused(_ arguments: [String]) {
        #expect(throws: (any Error).self) { try VersionCommand.parse(arguments) }
    }

    @Test(arguments: CompletionCommand.Shell.allCases)
    func aCompletionScriptNamesEachCommand(_ shell: CompletionCommand.Shell) {
        let script = CompletionCommand.script(for: shell)
        #expect(!script.hasPrefix("#!") && script.hasSuffix("\n"))
        let names = RootCommand.configuration.subcommands.compactMap { $0.configuration.commandName }
        #expect(names.allSatisfy { script.contains($0) })
    }
}
