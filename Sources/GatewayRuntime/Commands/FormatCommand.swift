import ArgumentParser

struct FormatCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fmt",
        abstract: "Lay a configuration file out in one style; comments, order and quotes stay.",
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

    func run() throws {
        let (output, isClean) = try FormatOperation.run(config.path, onlyChecks: onlyChecks)
        Console.write(output)
        if onlyChecks, !isClean { throw CommandFailure(.failed) }
    }
}
