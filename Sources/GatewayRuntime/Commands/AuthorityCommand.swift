import ArgumentParser

struct AuthorityCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ca",
        abstract: "Make, show and replace the local authority, and let this machine trust it.",
        subcommands: [
            AuthorityShowCommand.self, AuthorityCreateCommand.self, AuthorityStatusCommand.self,
            AuthorityInstallCommand.self, AuthorityUninstallCommand.self, AuthorityRotateCommand.self,
        ]
    )
}

struct AuthorityShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Print the certificates that clients have to trust.",
        discussion: """
            Examples:
              authgateway ca show > ca.pem
              curl --cacert "$(authgateway ca show --path)" \\
                -x http://127.0.0.1:8080 https://api.example.com/

            A gateway with intercept: true (listeners.proxy) makes the authority at its
            start. It can sign for the hosts of its routes alone.

            Exit codes: 0 shown, 1 there is none, 3 configuration.
            """
    )

    @OptionGroup var config: ConfigOption
    @Flag(help: "Print where the file is instead.")
    var path = false

    func run() async throws {
        Console.write(try AuthorityCommands(configuration: config.runningPath()).show(path: path))
    }
}

struct AuthorityCreateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Make the local authority before the gateway starts.",
        discussion: """
            Examples:
              authgateway ca create && sudo authgateway ca install

            A gateway makes it by itself when it starts. With this command it can be
            installed before. It needs a listener with intercept: true and a route to an
            https upstream.

            Exit codes: 0 done, 1 failed, or a gateway runs, 3 configuration.
            """
    )

    @OptionGroup var config: ConfigOption

    func run() async throws {
        Console.write(try await AuthorityCommands(configuration: config.path).create())
    }
}

struct AuthorityStatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Say what of this machine trusts the local authority.",
        discussion: """
            Examples:
              authgateway ca status
              authgateway exec -- authgateway ca status

            Looks at the certificates of the system, the trust stores of Java, and the
            files that variables such as SSL_CERT_FILE name. Changes nothing.

            Exit codes: 0 done, 1 there is no authority, 3 configuration.
            """
    )

    @OptionGroup var config: ConfigOption

    func run() async throws {
        Console.write(try AuthorityCommands(configuration: config.runningPath()).status())
    }
}

struct AuthorityInstallCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "install",
        abstract: "Let this machine trust the local authority.",
        discussion: """
            Examples:
              sudo authgateway ca install

            Uses update-ca-certificates, trust or security, whichever the machine has.
            Uses keytool for a Java whose trust store does not follow the system. Prints
            what it did. Needs root. Repeat it when a new host has made a new
            certificate. Programs that `authgateway exec` starts do not need it.

            Exit codes: 0 done, 1 failed, 3 configuration.
            """
    )

    @OptionGroup var config: ConfigOption

    func run() async throws {
        Console.write(try await TrustCommands(configuration: config.runningPath()).install())
    }
}

struct AuthorityUninstallCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "uninstall",
        abstract: "Let this machine trust the local authority no longer.",
        discussion: """
            Examples:
              sudo authgateway ca uninstall

            Removes all that `authgateway ca install` has installed, also certificates
            that the authority has replaced since. Needs root.

            Exit codes: 0 done, 1 failed, 3 configuration.
            """
    )

    @OptionGroup var config: ConfigOption

    func run() async throws {
        Console.write(try await TrustCommands(configuration: config.runningPath()).uninstall())
    }
}

struct AuthorityRotateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rotate",
        abstract: "Make a new local authority in the place of the present one.",
        discussion: """
            Examples:
              authgateway ca rotate && sudo authgateway ca install

            Goes through the running gateway, which goes on serving; when none runs, it
            works on the state directory. Open connections go on. All that trusted the old
            authority has to trust the new one, except programs that `authgateway exec`
            started, whose files are written anew. Recorded as authority_rotated.

            Exit codes: 0 done, 1 failed, 3 configuration, 4 no gateway answers.
            """
    )

    @OptionGroup var config: ConfigOption

    func run() async throws {
        Console.write(try await AuthorityCommands(configuration: config.runningPath()).rotate())
    }
}
