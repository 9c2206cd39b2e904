import ArgumentParser

struct AddCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Add a service that is known by name to the configuration.",
        discussion: """
            Examples:
              authgateway add github
              authgateway add openai --secret env:MY_OPENAI_KEY
              authgateway add okta campus --with domain=acme.okta.com
              authgateway add box --with enterprise=12345 --secret BOX_CLIENT_SECRET=file:box.secret

            Writes a credential and the routes of a preset behind those that are there, and
            shows the difference. Comments and order stay. `authgateway presets` lists the
            presets; `authgateway presets show NAME` says what one needs.

            A secret never stands on the command line. --secret says where it comes from:
            env:NAME, file:PATH, systemd:NAME, or - to paste it. What is pasted is kept in
            a file with mode 0600 in the state directory, which git ignores where it is
            beside the configuration. On a terminal the command asks.

            A configuration without listeners.proxy gets a listener that programs can use
            as their proxy: `authgateway exec -- PROGRAM`.

            Where all secrets are there, it asks the service whose credential it is.
            """
    )

    @Argument(help: "The name of the preset.")
    var preset: String

    @OptionGroup var service: ServiceArguments

    @Flag(name: .customLong("dry-run"), help: "Show the difference, and write nothing.")
    var isDryRun = false

    @Flag(name: .customLong("no-whoami"), help: "Send no request to the service.")
    var skipsWhoami = false

    @OptionGroup var config: ConfigOption

    func run() async throws {
        let add = AddOperation(configuration: config.path, preset: preset, options: service.options)
        Console.write(try await add.run(isDryRun: isDryRun, checksCredential: !skipsWhoami))
    }
}
