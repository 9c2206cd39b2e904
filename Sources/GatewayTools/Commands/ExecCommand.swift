import ArgumentParser
import Foundation
import GatewayApp
import GatewayConfiguration
import GatewayHTTP
import GatewayLocalAuthority
import Synchronization

struct ExecCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "exec",
        abstract: "Run a program that uses the gateway as its proxy.",
        discussion: """
            Examples:
              authgateway exec -- curl https://api.example.com/v1/me
              authgateway exec --client laptop -- git clone https://git.example.com/x.git
              authgateway exec --ephemeral -- python3 program.py
              authgateway exec --client-token-file ~/gateway.token -- python3 program.py

            The program gets the environment of `authgateway env`: the proxy, and files
            with the certificates that the machine trusts and those of the local
            authority. It needs a listener on loopback with intercept: true.

            Requests to hosts without a route pass where the listener has
            connect: {unrouted: tunnel}. Otherwise they are refused.

            A warning names programs that are known to ignore the proxy, such as
            Node.js before 22.21, ssh, or what sudo and docker start.

            For services of presets that have a route with a credential, variables such as
            OPENAI_API_KEY are set to a token that works only on this gateway, until the
            program exits. The gateway puts the real key into requests.

            It does not get the variables that the configuration reads secrets from with
            {env: NAME} or ${NAME}. --keep-env NAME passes one on, and leaves a variable
            for an API key as it is.

            Nothing is read from the files of another user's gateway, or of one on another
            machine (--admin). Its admin listener names the proxy and the certificates,
            which are in a temporary folder while the program runs. Say where your client
            token is: --client-token-file or --client-token-env.

            With --ephemeral it has a gateway of its own, with its own port and state
            directory. They are gone afterwards, and so is the audit log. Tokens are
            fetched again: a credential that needs a login has none there.

            The exit code is that of the program; 127 when it is not found, 126 when it
            cannot be run. With --ephemeral, or a gateway of another user or machine,
            signals are passed on, and 128+N says that signal N has ended it. Before the
            program runs: 1 failed, 2 usage, 3 configuration, 4 no gateway answers.
            """
    )

    @OptionGroup var gateway: GatewayPlace
    @OptionGroup var client: ClientTokenSource

    @Flag(help: "Run a separate gateway while the program runs.")
    var ephemeral = false

    @Option(
        name: .customLong("keep-env"),
        help: ArgumentHelp(
            "A variable that stays as it is: one with an API key, or one that the configuration reads a secret from. May be repeated.",
            valueName: "variable"
        )
    )
    var kept: [String] = []

    @Argument(
        parsing: .postTerminator,
        help: ArgumentHelp("The program and its arguments, behind --.", valueName: "command")
    )
    var command: [String] = []

    func validate() throws {
        guard !command.isEmpty else {
            throw ValidationError(
                "Name the program behind --, as in: authgateway exec -- curl https://api.example.com/"
            )
        }
        if ephemeral, client.clientTokenFile != nil || client.clientTokenEnv != nil {
            throw ValidationError(
                "With --ephemeral the program gets a token that is made for it; name the client alone."
            )
        }
        if ephemeral, gateway.admin != nil || gateway.adminTokenFile != nil {
            throw ValidationError("--ephemeral runs the gateway of a configuration, and --admin names one that runs.")
        }
    }

    func run() async throws(CommandFailure) { Console.exit(code: try await runProgram()) }

    /// Becomes the program where a gateway of this user runs, and does not return then.
    ///
    /// - Returns: What to end with.
    private func runProgram() async throws(CommandFailure) -> Int32 {
        if !ephemeral, let shared = try SharedGateway.find(gateway) {
            let descriptors = OpenDescriptors.current
            return try await shared.run(client) { (access, signals) in
                noteRefusals(access)
                return await runBeside(access, signals, descriptors, without: [])
            }
        }
        let configuration = ephemeral ? try gateway.config.path : try gateway.config.runningPath()
        let descriptors = OpenDescriptors.current
        let secrets = SecretVariables.named(in: configuration)
        guard !ephemeral else {
            return try await EphemeralGateway(configuration: configuration, client: client.client)
                .run { (access, signals) in await runBeside(access, signals, descriptors, without: secrets) }
        }
        let access = try await ClientAccess.ofRunningGateway(
            configuration: configuration,
            source: client,
            isRun: true,
            advice: "\nor let this command run a separate one while the program runs: --ephemeral"
        )
        noteRefusals(access)
        let environment = await environment(access, without: secrets)
        descriptors.closeOthersInPrograms()
        return report(ForegroundProgram.replaceProcess(command, environment: environment))
    }

    /// For a program that needs something of this process as long as it runs.
    private func runBeside(
        _ access: ClientAccess,
        _ signals: ForwardedSignals,
        _ descriptors: OpenDescriptors,
        without secrets: Set<String>
    ) async -> Int32 {
        let environment = await environment(access, without: secrets)
        descriptors.closeOthersInPrograms()
        do throws(ForegroundProgram.Failure) {
            return try await ForegroundProgram.run(command, environment: environment, signals: signals)
        } catch {
            return report(error)
        }
    }

    private func noteRefusals(_ access: ClientAccess) {
        guard !access.endpoint.tunnelsUnrouted, Console.isErrorTerminal else { return }
        Console.writeError("authgateway: \(ProxyOffer.refusalNotice)\n")
    }

    /// Otherwise the program would send requests without a credential, and nobody would know why.
    private func warn(_ text: String) { Console.writeError("authgateway: warning: \(text)\n") }

    /// Says which variables the program does not get, and which have another value.
    private func environment(_ access: ClientAccess, without secrets: Set<String>) async -> [String: String] {
        let own = ProcessInfo.processInfo.environment
        let (warning, callsDirectly) = await ProgramProbe.proxyWarning(for: command, hasToken: access.proof != nil)
        let tools = access.tools(keeping: Set(kept), usesPaths: callsDirectly)
        let given = ProgramVariables(own, without: secrets.subtracting(tools.variables.map(\.name)), keeping: Set(kept))
        let gitWarning = ProxyAdvice(command: command).gitWarning(for: tools.gitHosts)
        for text in [warning, gitWarning].compactMap(\.self) + tools.warnings { warn(text) }
        for text in tools.notices + [given.notice].compactMap(\.self) { Console.writeError("authgateway: \(text)\n") }
        return (access.variables + tools.variables).reduce(into: given.variables) { $0[$1.name] = $1.value }
    }

    private func report(_ failure: ForegroundProgram.Failure) -> Int32 {
        Console.writeError("authgateway: \(LogText.clean(command[0])) cannot be started: \(failure.reason)\n")
        return failure.status
    }
}

/// What a program gets of the environment of this process.
struct ProgramVariables {
    let variables: [String: String]
    /// In order.
    let withheld: [String]

    /// What every program needs, such as `HOME`, is not withheld.
    init(_ own: [String: String], without secrets: Set<String>, keeping kept: Set<String>) {
        let hidden = secrets.subtracting(kept).subtracting(ProgramEnvironment.inherited)
        variables = own.filter { !hidden.contains($0.key) }
        withheld = own.keys.filter(hidden.contains).sorted()
    }

    /// nil if nothing is withheld.
    var notice: String? {
        guard !withheld.isEmpty else { return nil }
        let names = withheld.map { LogText.clean($0) }.joined(separator: ", ")
        return
            "withheld from the program because the configuration reads secrets from them: \(names) (--keep-env NAME passes one on)"
    }
}

/// The variables that a configuration reads secrets from.
private final class SecretVariables: Sendable {
    private let names = Mutex<Set<String>>([])

    /// Those of `{env: NAME}`, and of `${NAME}` where the name sounds like that of a secret.
    static func named(in configuration: String) -> Set<String> {
        let found = SecretVariables()
        let loader = ConfigLoader(files: SystemConfigFiles(), placeholder: "unset", size: .ofProcess) { name in
            if SecretMask.isSensitive(name) { found.names.withLock { _ = $0.insert(name) } }
            return Console.environment(name)
        }
        let root = loader.load(configuration).document?.root
        return found.names.withLock { $0 }.union(root?.secretVariables ?? [])
    }
}

struct EnvCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "env",
        abstract: "Print the variables with which programs use the gateway.",
        discussion: """
            Examples:
              eval "$(authgateway env)"
              authgateway env --format dotenv > .env
              authgateway env --format docker > gateway.env

            They name the proxy, and a file with the certificates to trust: those of the
            machine, of the local CA, and those that variables such as
            SSL_CERT_FILE name now. Needs a running gateway with a listener on loopback
            that has intercept: true.

            The certificates of a gateway of another user or machine, which is named as for
            `authgateway exec`, are copied to ~/.cache/authgateway. Run this again when they
            have changed.

            Variables for API keys, as `authgateway exec` sets them, get a value that only
            lets tools start, unless the configuration reads a secret from them.

            With a client the token is part of the proxy's URL. Keep what is printed as
            you keep a token.
            """
    )

    @OptionGroup var gateway: GatewayPlace
    @OptionGroup var client: ClientTokenSource

    @Option(help: "sh, dotenv, docker or json.")
    var format = "sh"

    func run() async throws(CommandFailure) {
        guard let format = EnvironmentFormat(rawValue: format) else {
            let formats = EnvironmentFormat.allCases.map(\.rawValue).joined(separator: ", ")
            throw CommandFailure(.usage, "there is no format \"\(LogText.clean(format))\"; formats: \(formats)")
        }
        let (access, secrets) = try await access()
        // A gateway that is started with these variables would take what is in them for its own secrets.
        let tools = access.tools(keeping: secrets)
        for text in tools.warnings { Console.writeError("authgateway: warning: \(text)\n") }
        guard access.proof == nil || !Console.isOutputTerminal else {
            throw CommandFailure(
                .usage,
                "the token of the client would be shown on the terminal; use it without printing it:\n"
                    + "  eval \"$(authgateway env --client NAME)\""
            )
        }
        guard let text = format.text(access.variables + tools.variables) else {
            throw CommandFailure(
                .failed,
                "a value has a line break, which a file for docker cannot hold; use another format"
            )
        }
        Console.write(text)
    }

    /// Also the variables that the gateway of this user reads secrets from.
    private func access() async throws(CommandFailure) -> (ClientAccess, secrets: Set<String>) {
        if let shared = try SharedGateway.find(gateway) { return (try await shared.lastingAccess(client), []) }
        let configuration = try gateway.config.runningPath()
        let access = try await ClientAccess.ofRunningGateway(
            configuration: configuration,
            source: client,
            isRun: false,
            advice: ""
        )
        return (access, SecretVariables.named(in: configuration))
    }
}
