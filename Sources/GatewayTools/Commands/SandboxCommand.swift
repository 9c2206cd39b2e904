import ArgumentParser
import GatewayApp
import GatewayFiles
import GatewaySandbox
import Logging
import NIOCore
import UnixSignals

struct SandboxTokenOption: ParsableArguments {
    static let usual = Sandbox.Options().tokenLifetime

    @Option(help: ArgumentHelp("How long the sandbox's tokens live.", valueName: "seconds"))
    var tokenLifetime = usual

    func validate() throws {
        guard (1...86_400).contains(tokenLifetime) else {
            throw ValidationError("--token-lifetime must be between 1 and 86400 seconds.")
        }
    }
}

struct SandboxCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sandbox",
        abstract: "Run local authorization servers and upstreams to try things against, until a signal.",
        discussion: """
            Examples:
              authgateway sandbox                            print SANDBOX_ variables
              authgateway sandbox --port 9100 --token-lifetime 5
              curl http://127.0.0.1:9100/_sandbox/state      what it has seen
            """
    )

    @Option(help: "The first of five ports; 0 takes any that are free.")
    var port = 0

    @OptionGroup var tokens: SandboxTokenOption
    @OptionGroup var json: JSONFlag

    func validate() throws {
        guard (0...65_531).contains(port) else { throw ValidationError("--port must be between 0 and 65531.") }
    }

    func run() async throws(CommandFailure) {
        var options = Sandbox.Options()
        options.tokenLifetime = tokens.tokenLifetime
        if port > 0 {
            options.boxPort = port
            options.boxDownloadsPort = port + 1
            options.dukePort = port + 2
            options.oauthPort = port + 3
            options.upstreamPort = port + 4
        }
        let logger = LogOutput.standardError.logger("authgateway.sandbox", level: .warning)
        let sandbox = try await Sandbox.start(options, logger: logger)
        let environment = sandbox.environment
        Console.write(try json.text(of: environment, or: Self.shellLines(environment)))
        for await _ in await UnixSignalsSequence(trapping: .sigterm, .sigint) { break }
        await sandbox.stop()
    }

    /// For `eval`, or to read.
    private static func shellLines(_ environment: [String: String]) -> String {
        environment.sorted { $0.key < $1.key }
            .map { "export \($0.key)='\($0.value.replacing("'", with: "'\\''"))'\n" }
            .joined()
    }
}

extension Sandbox {
    /// For a command, which says why it cannot start.
    static func start(_ options: Options, logger: Logger) async throws(CommandFailure) -> Sandbox {
        do {
            return try await Sandbox.start(options: options, logger: logger)
        } catch {
            let reason = (error as? IOError).map { SystemError.text($0.errnoCode) } ?? LogText.clean("\(error)")
            throw CommandFailure(.failed, "the sandbox cannot start: \(reason)")
        }
    }
}
