import ArgumentParser

struct VersionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "version",
        abstract: "Print the version.",
        discussion: """
            Examples:
              authgateway version
              authgateway version --json   also the commit, its date and the toolchain

            A build that is no release has no commit and no toolchain.
            """
    )

    @OptionGroup var json: JSONFlag

    func run() throws {
        Console.write(try json.isOn ? VersionReport().json() : "authgateway \(GatewayVersion.current)\n")
    }
}
