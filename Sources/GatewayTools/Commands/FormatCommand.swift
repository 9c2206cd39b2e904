import ArgumentParser
import GatewayApp

struct FormatCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fmt",
        abstract: "Format a configuration file; comments, order and quotes stay.",
        discussion: """
            Examples:
              authgateway fmt
              authgateway fmt --check
              authgateway fmt conf.d/box.yaml

            Indents by two columns, puts one space behind ":" and "-", one blank line
            between long sections, and removes blanks at the ends of lines. What it writes
            means the same: that is compared before. Files that are included are formatted
            one at a time, by name.

            With --check it writes nothing, shows the difference, and ends with exit code 1
            when there is one. Exit code 3 when the file cannot be read as YAML.
            """
    )

    @Flag(name: .customLong("check"), help: "Only show what would change.")
    var onlyChecks = false

    @OptionGroup var config: ConfigArgument

    func run() throws(CommandFailure) {
        let editor = try ConfigurationEditor(config.path)
        try editor.format()
        guard !editor.changedFiles.isEmpty else { return }
        let shown = LogText.clean(config.name)
        guard !onlyChecks else {
            let difference = editor.difference
            Console.write(difference.isEmpty ? "\(shown): only line breaks differ.\n" : difference)
            throw CommandFailure(.failed)
        }
        try editor.write()
        Console.write("Formatted \(shown).\n")
    }
}
