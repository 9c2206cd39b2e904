import ArgumentParser
import GatewayApp
import GatewayConfiguration

/// The program: runs the command that the command line names, and ends with its exit code.
package enum AuthGateway {
    /// Has to be called before anything is awaited: the first wait makes the runtime open descriptors, which take the numbers of standard
    /// files that are closed.
    package static func prepare() {
        OpenDescriptors.fillStandard()
        // Before anything secret is read.
        ProcessMemory.hide()
    }

    package static func run() async {
        let outcome = await outcome()
        // The command's last message comes after all lines of the log.
        await LogOutput.flushStandardError()
        if case .failure(let error) = outcome { end(with: error) }
    }

    private static func outcome() async -> Result<Void, any Error> {
        do {
            try await runCommand()
            // A copy of the log that is cut off must not look like a whole one.
            if let reason = Console.outputFailure {
                throw CommandFailure(.failed, "the output could not be written: \(reason)")
            }
            return .success(())
        } catch {
            return .failure(error)
        }
    }

    private static func runCommand() async throws {
        let arguments = Array(CommandLine.arguments.dropFirst())
        if let run = GatewayRun(usual: arguments) { return try await run() }
        // The parser would find it behind a subcommand, too, and within `-verbose`.
        if arguments == ["-v"] { throw CleanExit.message(GatewayVersion.current) }
        // The parser would print the help of the program.
        if arguments.first == "help", let meant = suggestion(for: Array(arguments.dropFirst())) {
            throw CommandFailure(.usage, "there is no such command\nDid you mean this?\n  \(meant) --help")
        }
        var command = try RootCommand.parseAsRoot()
        if var command = command as? any AsyncParsableCommand {
            try await command.run()
        } else {
            try command.run()
        }
    }

    /// Diagnostics are printed as they are; other messages begin with the name of the program.
    private static func text(of failure: CommandFailure) -> String {
        let text = failure.description.hasSuffix("\n") ? failure.description : failure.description + "\n"
        return failure.status == .configuration ? text : "authgateway: \(text)"
    }

    /// Help goes to standard output; wrong usage ends with 2, where ArgumentParser's own is 64.
    private static func end(with error: any Error) -> Never {
        if let failure = error as? CommandFailure {
            if !failure.description.isEmpty { Console.writeError(text(of: failure)) }
            Console.exit(failure.status)
        }
        let message = HelpText.laidOut(RootCommand.fullMessage(for: error))
        if RootCommand.exitCode(for: error).isSuccess {
            Console.write(message + "\n")
            Console.exit(.ok)
        }
        let isUsage = RootCommand.exitCode(for: error) == .validationFailure
        let arguments = Array(CommandLine.arguments.dropFirst())
        let meant = isUsage ? suggestion(for: arguments) ?? HelpText.option(meantBy: message) : nil
        let advice = meant.map { "Did you mean this?\n  \($0)\n" } ?? ""
        Console.writeError(message + "\n" + advice)
        Console.exit(isUsage ? .usage : .failed)
    }

    /// nil when no other command is near.
    private static func suggestion(for arguments: [String]) -> String? {
        CommandSuggestion.suggestion(for: arguments, of: "authgateway", among: paths(below: RootCommand.self))
    }

    /// The words behind the name of the program, of all its commands.
    private static func paths(below command: any ParsableCommand.Type) -> [[String]] {
        command.configuration.subcommands.flatMap { subcommand -> [[String]] in
            guard let name = subcommand.configuration.commandName else { return [] }
            return [[name]] + paths(below: subcommand).map { [name] + $0 }
        }
    }
}

struct RootCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "authgateway",
        abstract: "A reverse proxy that adds a valid credential to every request.",
        discussion: """
            Examples:
              authgateway init            write the first gateway.yaml
              authgateway add github      add a service that is known by name
              authgateway run --sandbox   serve gateway.yaml, with local test services
              authgateway check           find every mistake in gateway.yaml
              authgateway doctor          find what is wrong, and say what to do
              authgateway status          what the gateway's credentials are doing
              authgateway explain URL     how a request would be routed and signed, and why
              authgateway audit tail -f   watch token events as they happen
              authgateway exec -- CMD     run a program with the gateway as its proxy

            Exit codes: 0 done, 1 failed, 2 wrong usage, 3 configuration, 4 gateway not
            reachable, 5 audit log broken.
            """,
        version: GatewayVersion.current,
        groupedSubcommands: [
            CommandGroup(
                name: "Serve",
                subcommands: [
                    RunCommand.self, ReloadCommand.self, ApproveCommand.self, ExecCommand.self, EnvCommand.self,
                    SandboxCommand.self,
                ]
            ),
            CommandGroup(
                name: "Configure",
                subcommands: [
                    InitCommand.self, AddCommand.self, RemoveCommand.self, CheckCommand.self, PlanCommand.self,
                    FormatCommand.self, ImportCommand.self, ExportCommand.self, PresetsCommand.self,
                    ConfigCommand.self,
                ]
            ),
            CommandGroup(name: "Tokens", subcommands: [TokenCommand.self, LoginCommand.self, LogoutCommand.self]),
            CommandGroup(
                name: "Observe",
                subcommands: [
                    StatusCommand.self, RoutesCommand.self, ExplainCommand.self, ExplainErrorCommand.self,
                    DoctorCommand.self, AuditCommand.self, FleetCommand.self,
                ]
            ),
            CommandGroup(name: "Trust", subcommands: [AuthorityCommand.self, KeyCommand.self]),
            CommandGroup(name: "State", subcommands: [StateCommand.self, StoreCommand.self]),
            CommandGroup(name: "Program", subcommands: [CompletionCommand.self, VersionCommand.self]),
        ]
    )
}
