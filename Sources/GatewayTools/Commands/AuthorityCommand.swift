import ArgumentParser
import GatewayApp
import GatewayFiles
import GatewayHTTP
import GatewayLocalAuthority
import GatewayProxy

struct AuthorityCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ca",
        abstract: "Make, show and replace the local CA, and let this machine trust it.",
        discussion: """
            Examples:
              authgateway ca status
              authgateway ca show > ca.pem
            """,
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
            start. It can sign only for the hosts of its routes.

            Exit codes: 0 shown, 1 there is none, 3 configuration.
            """
    )

    @OptionGroup var config: ConfigOption
    @Flag(help: "Print where the file is instead.")
    var path = false

    func run() async throws(CommandFailure) {
        let plan = try config.runningSettings().plan
        let bundle = LocalAuthority.bundlePath(in: plan.stateDirectory)
        do throws(BoundedFile.Failure) {
            let content = try BoundedFile.read(bundle, limit: AuthorityRoots.limit).bytes
            Console.write(path ? bundle + "\n" : String(decoding: content, as: UTF8.self))
        } catch {
            throw CommandFailure(.failed, Self.absence(of: bundle, plan, error))
        }
    }

    private static func absence(of path: String, _ plan: OperatorPlan, _ failure: BoundedFile.Failure) -> String {
        guard failure != .missing else {
            return "there is no local CA in \(plan.stateDirectory); a gateway makes one when it starts with"
                + " intercept: true (listeners.proxy)"
        }
        let reason = "the certificates of the local CA, \(path), cannot be read: \(failure.message)"
        guard failure == .forbidden else { return reason }
        let advice = "\(reason); run this as the gateway's user"
        // With TLS this is a socket in the state directory, which other users cannot reach either.
        guard case .tcp(let host, let port) = plan.admin.address else { return advice }
        let curl = plan.admin.requiresToken ? ShellWord.bearer(from: "ADMIN_TOKEN_FILE") + "curl -H @-" : "curl"
        return "\(advice), or ask the running gateway:\n  \(curl) http://\(Origin.urlHost(host)):\(port)/ca.pem"
    }
}

struct AuthorityCreateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Make the local CA before the gateway starts.",
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

    func run() async throws(CommandFailure) {
        let plan = try OperatorSettings(running: config.path).plan
        guard !StateDirectory.isHeld(plan.stateDirectory) else {
            throw CommandFailure(
                .failed,
                "a gateway uses \(plan.stateDirectory): it has made the authority; see authgateway ca show"
            )
        }
        let made = try await OfflineAuthority.use(config.path) { authority, plan in await authority.coverInTime(plan) }
        let path = LocalAuthority.bundlePath(in: plan.stateDirectory)
        guard !made.isEmpty else {
            Console.write("The local CA is complete: \(path)\n")
            return
        }
        Console.write(
            "The local CA can sign for \(OfflineAuthority.list(made)). Programs have to trust \(path)\n"
                + OfflineAuthority.advice
        )
    }
}

struct AuthorityStatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show which trust stores of this machine trust the local CA.",
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

    func run() async throws(CommandFailure) {
        let plan = try config.runningSettings().plan
        let trust: AuthorityTrust
        do throws(StateError) {
            trust = try TrustProbe(stateDirectory: plan.stateDirectory).look()
        } catch {
            throw CommandFailure(.failed, error.description)
        }
        guard !trust.roots.isEmpty else {
            throw CommandFailure(
                .failed,
                "there is no local CA in \(plan.stateDirectory); make it with: authgateway ca create"
            )
        }
        var roots = TextTable("CERTIFICATE", "EXPIRES", "SHA-256")
        for root in trust.roots {
            roots.add(root.name, String(root.endsAt.rfc3339.prefix(10)), String(root.fingerprint.prefix(16)))
        }
        var places = TextTable("WHERE", "WHAT", "STATE")
        for place in trust.places { places.add(place.kind.rawValue, place.name, trust.state(of: place)) }
        Console.write(roots.text(.current) + "\n" + places.text(.current))
    }
}

struct AuthorityRotateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rotate",
        abstract: "Replace the local CA with a new one.",
        discussion: """
            Examples:
              authgateway ca rotate && sudo authgateway ca install

            Goes through the running gateway, which keeps serving; when none runs, it
            works on the state directory. Open connections stay open. Everything that
            trusted the old authority must trust the new one, except programs that
            `authgateway exec` started, whose files are rewritten. Recorded as
            authority_rotated.

            Exit codes: 0 done, 1 failed, 3 configuration, 4 no gateway answers.
            """
    )

    @OptionGroup var config: ConfigOption

    func run() async throws(CommandFailure) {
        let path = try config.runningPath()
        let settings = try OperatorSettings(running: path)
        let plan = settings.plan
        let report: AuthorityRotationReport
        if StateDirectory.isHeld(plan.stateDirectory) {
            report = try await settings.client.ask(AdminAPI.operations.rotateAuthority)
        } else {
            let scopes = try await OfflineAuthority.use(path) { authority, plan in await authority.rotateInTime(plan) }
            report = AuthorityRotationReport(scopes: scopes, file: LocalAuthority.bundlePath(in: plan.stateDirectory))
        }
        Console.write(
            "The local CA was replaced, for \(OfflineAuthority.list(report.scopes)). Trust it where you trusted the old one:\n"
                + "  \(LogText.clean(report.file))\n" + OfflineAuthority.advice
                + "The files that authgateway exec and env gave to programs are already rewritten.\n"
        )
    }
}

/// What `ca create` and `ca rotate` share: the local CA of a gateway that does not run.
private enum OfflineAuthority {
    static let advice = """
        Make this machine trust it:  sudo authgateway ca install
        Or one program:              authgateway exec -- PROGRAM

        """

    static func list(_ scopes: [String]) -> String {
        scopes.map { $0 == LocalAuthorityPlan.anyHost ? "any host" : LogText.clean($0) }.joined(separator: ", ")
    }

    /// On the files of a gateway that does not run. The lock of the state directory is held meanwhile.
    static func use(
        _ configuration: String,
        _ work: (LocalAuthority, Plan) async -> Result<[String], StateError>
    ) async throws(CommandFailure) -> [String] {
        let plan = try ConfigurationFile(path: configuration, consequence: "nothing was changed").plan
        guard !plan.interceptedHosts.isEmpty else {
            let reason =
                plan.listeners.contains(where: \.intercepts)
                ? "no route leads to an https:// upstream" : "no listener has intercept: true (listeners.proxy)"
            throw CommandFailure(.configuration, "there is nothing to sign for: \(reason)")
        }
        let storage = try await Storage.ofStoppedGateway(Storage.Places(plan))
        let result = await work(storage.authority, plan)
        AdminToken.remove(in: plan.stateDirectory)
        await storage.close()
        switch result {
        case .success(let scopes): return scopes
        case .failure(let error): throw CommandFailure(.failed, error.description)
        }
    }
}
