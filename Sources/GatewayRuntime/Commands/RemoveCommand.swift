import ArgumentParser

struct RemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Take a route or a credential out of the configuration.",
        discussion: """
            Examples:
              authgateway remove reports
              authgateway remove box-service --with-routes
              authgateway remove box --credential --yes

            Shows the difference, checks the result and asks before it writes. Only the
            lines of the entry and its own comments go; also from a file that is included.
            A credential that routes use stays. --with-routes also removes those routes,
            and the files in which `add` kept secrets for them.

            Tokens that were stored for a credential are not revoked. Do that before:
              authgateway token revoke NAME

            A running gateway loads it. Exit code 1 when there is no
            such name or it is in use, 3 when the result would be no valid configuration.
            """
    )

    @Argument(help: "The name of a route or a credential.")
    var name: String

    @Flag(help: "The name is that of a route.")
    var route = false

    @Flag(help: "The name is that of a credential.")
    var credential = false

    @Flag(name: .customLong("with-routes"), help: "Remove the routes that use the credential, too.")
    var withRoutes = false

    @OptionGroup var yes: YesFlag
    @OptionGroup var config: ConfigOption

    func validate() throws {
        if route, credential { throw ValidationError("Give --route or --credential, not both.") }
        if route, withRoutes { throw ValidationError("--with-routes is for a credential.") }
    }

    func run() async throws {
        let kind: RemoveOperation.Kind? = route ? .route : credential ? .credential : nil
        let remove = RemoveOperation(configuration: config.path, name: name, kind: kind, withRoutes: withRoutes)
        Console.write(try await remove.run(isConfirmed: yes.isGiven))
    }
}
