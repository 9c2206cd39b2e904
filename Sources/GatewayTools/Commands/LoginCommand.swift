import ArgumentParser
import GatewayApp
import GatewayHTTP
import GatewayTokens
import Synchronization
import UnixSignals

struct LoginCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "login",
        abstract: "Log in with a browser for a credential that needs a person.",
        discussion: """
            Examples:
              authgateway login box            open a browser, wait for it to come back
              authgateway login box --manual   over SSH: paste the address of the last page
              authgateway login box --device   type a short code on a page, on any device
              authgateway login mcp --scope write   ask for one more scope, now and later

            Goes through the running gateway; without one the token is put into the token
            store. What is pasted is read from standard input and is not shown. Exit code
            1 when the login failed, with the reason.
            """
    )

    @Argument(help: "The credential, as the configuration names it.")
    var name: String

    @Flag(help: "Wait for a paste instead of a browser of this machine.")
    var manual = false

    @Flag(help: "Log in on another device (RFC 8628); the credential needs device_authorization_url.")
    var device = false

    @Flag(help: "Only print the address.")
    var noBrowser = false

    @Option(
        name: .customLong("scope"),
        help: "Also ask for this scope, now and with later logins until a logout; may be repeated."
    )
    var scopes: [String] = []

    @Flag(help: "Register the client again first (RFC 7591); the credential needs registration_url.")
    var register = false

    @Option(
        help: ArgumentHelp(
            "How long to wait, such as 5m (the default; for --device as long as the code is valid).",
            valueName: "duration"
        )
    )
    var timeout: String?

    @OptionGroup var config: ConfigOption

    @Argument(help: .hidden)
    var others: [String] = []

    func validate() throws {
        guard !device || !manual else {
            throw ValidationError("--device and --manual are two ways to log in: choose one.")
        }
        guard others.isEmpty else {
            throw ValidationError(
                "Do not give the address that the browser ended on as an argument: other users and the shell's history see it."
                    + " Use --manual, and paste it when you are asked."
            )
        }
    }

    func run() async throws(CommandFailure) { Console.write(try Self.text(of: try await logIn())) }

    /// Registers the client again, at most once, where its registration is lost.
    ///
    /// - Returns: How the login ended.
    func logIn() async throws(CommandFailure) -> LoginProgress {
        let path = try config.runningPath()
        let order = try order()
        let client = try OperatorSettings(running: path).client
        // The file of another machine's gateway is not here.
        let registration = client.isNamed ? nil : ClientRegistration(of: name, in: path)
        guard let registration else {
            guard !register else {
                let fault = "\(LogText.clean(name)) has no registration_url that can be used here"
                throw CommandFailure(.usage, "--register: \(fault)")
            }
            return try await logIn(order, client, path)
        }
        let isLost = await isClientLost(client)
        if register || isLost {
            try await registration.repeat(askingAlsoFor: scopes)
            return try await logIn(order, client, path)
        }
        let progress = try await logIn(order, client, path)
        guard progress.token == nil, let code = progress.code, RefreshError.clientAuthenticationCodes.contains(code)
        else { return progress }
        Console.writeError("The authorization server no longer knows the client (\(code)); registering it again.\n")
        try await registration.repeat(askingAlsoFor: scopes)
        return try await logIn(order, client, path)
    }

    /// Whether the last renewal has failed because of the client: the login page of the authorization server would only show an error.
    private func isClientLost(_ client: AdminClient) async -> Bool {
        let tokens = try? await client.ask(AdminAPI.operations.tokens)
        guard let token = tokens?.first(where: { $0.credential == name }), token.failing != nil else { return false }
        return token.authorityError?.code.map(RefreshError.clientAuthenticationCodes.contains) ?? false
    }

    private func logIn(
        _ order: LoginOrder,
        _ client: AdminClient,
        _ path: String
    ) async throws(CommandFailure) -> LoginProgress {
        let (driver, invitation) = try await Self.begin(order, client, path)
        let outcome = await Self.catching { () async throws(CommandFailure) in
            show(invitation)
            return try await end(of: invitation, driver)
        }
        await driver.close()
        return try outcome.get()
    }

    private func order() throws(CommandFailure) -> LoginOrder {
        var order = LoginOrder(credential: name, way: device ? .device : manual ? .paste : .browser, scopes: scopes)
        // The authority says how long its code is valid.
        if device { order.timeout = LoginOrder.timeouts.upperBound }
        guard let timeout else { return order }
        guard let duration = ConfigUnits.duration(timeout), LoginOrder.timeouts.contains(duration) else {
            throw CommandFailure(.usage, "--timeout takes a duration from 1s to 30m, such as 5m")
        }
        order.timeout = duration
        return order
    }

    private var opensBrowser: Bool { !device && !manual && !noBrowser && Console.isErrorTerminal }

    /// In the running gateway; in this process when there is none.
    private static func begin(
        _ order: LoginOrder,
        _ client: AdminClient,
        _ configuration: String
    ) async throws(CommandFailure) -> (LoginDriver, LoginInvitation) {
        try await client.reach { () async throws(CommandFailure) in
            let running = LoginDriver.running(client)
            return (running, try await running.begin(order))
        } orOffline: { (failure) async throws(CommandFailure) in
            let offline = LoginDriver.offline(
                try await OfflineLogins(configuration: configuration, credential: order.credential, after: failure)
            )
            do throws(CommandFailure) {
                return (offline, try await offline.begin(order))
            } catch {
                await offline.close()
                throw error
            }
        }
    }

    private static func catching(
        _ body: () async throws(CommandFailure) -> LoginProgress
    ) async -> Result<LoginProgress, CommandFailure> {
        do throws(CommandFailure) {
            return .success(try await body())
        } catch {
            return .failure(error)
        }
    }

    private static func words(for code: String, of invitation: LoginInvitation) -> String {
        "Open this address on any device:\n\n  \(LogText.clean(invitation.page))\n\nand type this code there:\n\n  "
            + "\(LogText.clean(code))\n\nWaiting for \(ConfigUnits.text(.seconds(invitation.timeoutSeconds))); Ctrl-C cancels.\n"
    }

    private func show(_ invitation: LoginInvitation) {
        if let code = invitation.code { return Console.writeError(Self.words(for: code, of: invitation)) }
        var text = "Log in with a browser at this address:\n\n  \(invitation.page)\n\n"
        if invitation.isManual {
            text += "The login finishes at an address that begins with \(invitation.redirect)\n"
            text += "(the page itself may say that it cannot be reached). "
            text +=
                "Copy the whole address out of the browser,\npaste it here, where it is not shown, and press Enter: "
        } else {
            text += "Waiting for the browser on \(invitation.redirect) for "
            text += "\(ConfigUnits.text(.seconds(invitation.timeoutSeconds))); Ctrl-C cancels."
            text += " Is the browser on another machine? Use --manual.\n"
        }
        Console.writeError(text)
        // The address on a command line is one that works once and holds no secret.
        if opensBrowser, let start = invitation.start { Browser.open(start) }
    }

    private func end(
        of invitation: LoginInvitation,
        _ driver: LoginDriver
    ) async throws(CommandFailure) -> LoginProgress {
        let interruption = Interruption()
        defer { interruption.end() }
        var paste = invitation.isManual ? PastedLine() : nil
        defer {
            paste?.end()
            // What is printed next begins on a line of its own.
            if invitation.isManual { Console.writeError("\n") }
        }
        while !interruption.hasCome {
            switch paste?.read() ?? .waiting {
            case .waiting: break
            case .empty: Console.writeError("\nNothing was pasted yet. Paste the address, then press Enter: ")
            case .line(let text):
                return try await driver.answer(invitation.id, with: text)
            case .nothing:
                return try Self.result(ofCancelling: await driver.cancel(invitation.id), because: "nothing was pasted")
            }
            // The polling interval: this process is not told when the login ends.
            try? await Task.sleep(for: .milliseconds(200))
            let progress = try await driver.progress(invitation.id)
            if progress.isOver { return progress }
        }
        return try Self.result(ofCancelling: await driver.cancel(invitation.id), because: "the login was interrupted")
    }

    /// The answer may have come just before, and count.
    private static func result(
        ofCancelling progress: LoginProgress?,
        because reason: String
    ) throws(CommandFailure) -> LoginProgress {
        guard let progress else {
            throw CommandFailure(.failed, "\(reason); the gateway cancels the login when its time is up")
        }
        if progress.token != nil { return progress }
        guard progress.isOver else {
            throw CommandFailure(
                .failed,
                "\(reason) after its token had come; authgateway status shows whether it is used"
            )
        }
        throw CommandFailure(.failed, "\(reason); nothing was changed")
    }

    /// - Throws: ``ExitStatus/failed`` with the reason if the login has failed.
    static func text(of progress: LoginProgress) throws(CommandFailure) -> String {
        guard let token = progress.token else {
            throw CommandFailure(.failed, LogText.clean(progress.problem ?? "the login has not finished yet"))
        }
        let end =
            token.remainingSeconds.map {
                $0 > 0 ? "; the token expires in \(ConfigUnits.countdown($0))" : "; the token has expired"
            } ?? ""
        let renewal = token.renewsAt == nil || !token.isServed ? "" : ", and is renewed before that"
        let state = "Logged in: \(token.credential) is \(token.state.rawValue)\(end)\(renewal).\n"
        return token.lacksRefreshToken == true ? state + lackOfRefreshToken(token) : state
    }

    private static func lackOfRefreshToken(_ token: TokenStatus) -> String {
        let end = token.expiresAt.map { "at \($0)" } ?? "when its token is rejected"
        return """
            The authorization server gave no refresh token, so this login expires \(end). Then log in again:
                \(GatewayCommand.line("login", token.credential))
            Many servers give one only if it is asked for, with the scope offline_access or with authorize_parameters.

            """
    }
}

/// SIGINT and SIGTERM while a login waits, so that it is ended here and in the gateway.
private final class Interruption: Sendable {
    private let flag = Flag()
    private let task: Task<Void, Never>

    private final class Flag: Sendable {
        let isSet = Atomic(false)
    }

    init() {
        task = Task { [flag] in
            for await _ in await UnixSignalsSequence(trapping: .sigint, .sigterm) {
                flag.isSet.store(true, ordering: .relaxed)
            }
        }
    }

    var hasCome: Bool { flag.isSet.load(ordering: .relaxed) }

    func end() { task.cancel() }
}

struct LogoutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "logout",
        abstract: "Revoke the tokens of a login at the authorization server, then forget them.",
        discussion: """
            Examples:
              authgateway logout box

            The same as `token revoke`. The next request is refused until somebody logs in
            again. When the authorization server cannot be reached, the exit code is 1 and
            the tokens are kept, so that you can try again (duke_session forgets them
            anyway). `token clear` forgets them only here.
            """
    )

    @OptionGroup var options: TokenOptions

    func run() async throws(CommandFailure) { try await options.perform(AdminAPI.operations.revoke) }
}
