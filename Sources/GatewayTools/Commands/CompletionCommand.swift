import ArgumentParser
import GatewayApp

struct CompletionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "completion",
        abstract: "Print the script with which a shell completes commands and options.",
        discussion: """
            Examples:
              source <(authgateway completion bash)
              authgateway completion zsh > ~/.zfunc/_authgateway
              authgateway completion fish > ~/.config/fish/completions/authgateway.fish

            The Debian package and `make install` install the scripts. For zsh, the folder
            must be in fpath before compinit runs.
            """
    )

    enum Shell: String, CaseIterable, ExpressibleByArgument {
        case bash
        case zsh
        case fish

        fileprivate var parsers: CompletionShell {
            switch self {
            case .bash: .bash
            case .zsh: .zsh
            case .fish: .fish
            }
        }
    }

    @Argument(help: "The shell that reads the script.")
    var shell: Shell

    func run() { Console.write(Self.script(for: shell)) }

    /// Without an interpreter in its first line: a shell reads the script, nothing runs it.
    static func script(for shell: Shell) -> String {
        let script = RootCommand.completionScript(for: shell.parsers)
        guard script.hasPrefix("#!"), let end = script.firstIndex(of: "\n") else { return script + "\n" }
        return script[script.index(after: end)...] + "\n"
    }
}
