import GatewayCore
import Synchronization
import UnixSignals

/// What `login` does: begin, show the address, wait for the browser or a paste, say how it ended.
package struct LoginOperation: Sendable {
    private let configuration: String
    private let order: LoginOrder
    private let opensBrowser: Bool

    /// - Parameter timeout: As the configuration writes durations; nil takes the default.
    package init(
        configuration: String,
        credential: String,
        way: LoginWay,
        opensBrowser: Bool,
        timeout: String?
    ) throws(CommandFailure) {
        self.configuration = configuration
        self.opensBrowser = opensBrowser
        var order = LoginOrder(credential: credential, way: way.order)
        // The authority says how long its code is valid.
        if way == .device { order.timeout = LoginOrder.timeouts.upperBound }
        if let timeout {
            guard let duration = ConfigUnits.duration(timeout), LoginOrder.timeouts.contains(duration) else {
                throw CommandFailure(.usage, "--timeout takes a duration from 1s to 30m, such as 5m")
            }
            order.timeout = duration
        }
        self.order = order
    }

    /// - Returns: What is for standard output.
    package func run() async throws(CommandFailure) -> String {
        let (driver, invitation) = try await begin()
        let outcome = await Self.catching { () async throws(CommandFailure) in
            show(invitation)
            return try await end(of: invitation, driver)
        }
        await driver.close()
        return try outcome.get()
    }

    private static func catching(
        _ body: () async throws(CommandFailure) -> String
    ) async -> Result<String, CommandFailure> {
        do throws(CommandFailure) {
            return .success(try await body())
        } catch {
            return .failure(error)
        }
    }

    /// In the running gateway; in this process when there is none.
    private func begin() async throws(CommandFailure) -> (any LoginDriver, LoginInvitation) {
        let client = try OperatorSettings(running: configuration).client
        let running = GatewayLogins(client: client)
        let unreachable: CommandFailure
        do throws(CommandFailure) {
            return (running, try await running.begin(order))
        } catch {
            guard error.status == .unreachable, !client.isAnswered(error) else { throw error }
            unreachable = error
        }
        let offline = try await OfflineLogins(
            configuration: configuration,
            credential: order.credential,
            after: unreachable
        )
        do throws(CommandFailure) {
            return (offline, try await offline.begin(order))
        } catch {
            await offline.close()
            throw error
        }
    }

    private static func words(for code: String, of invitation: LoginInvitation) -> String {
        "Open this address on any device:\n\n  \(LogText.clean(invitation.page))\n\nand type this code there:\n\n  "
            + "\(LogText.clean(code))\n\nWaiting for it for \(ConfigUnits.text(.seconds(invitation.timeoutSeconds))); Ctrl-C ends it.\n"
    }

    private func show(_ invitation: LoginInvitation) {
        if let code = invitation.code { return Console.writeError(Self.words(for: code, of: invitation)) }
        var text = "Log in with a browser at this address:\n\n  \(invitation.page)\n\n"
        if invitation.isManual {
            text += "The login ends on an address that begins with \(invitation.redirect)\n"
            text += "(the page itself may say that it cannot be reached). "
            text +=
                "Copy the whole address out of the browser,\npaste it here, where it is not shown, and press Enter: "
        } else {
            text += "Waiting for the browser on \(invitation.redirect) for "
            text += "\(ConfigUnits.text(.seconds(invitation.timeoutSeconds))); Ctrl-C ends it."
            text += " Is the browser on another machine? Use --manual.\n"
        }
        Console.writeError(text)
        // The address on a command line is one that works once and holds no secret.
        if opensBrowser, let start = invitation.start { Browser.open(start) }
    }

    private func end(of invitation: LoginInvitation, _ driver: any LoginDriver) async throws(CommandFailure) -> String {
        let interruption = Interruption()
        defer { interruption.end() }
        var paste = invitation.isManual ? PastedLine() : nil
        defer {
            paste?.end()
            // What comes next is not to stand behind the prompt.
            if invitation.isManual { Console.writeError("\n") }
        }
        while !interruption.hasCome {
            switch paste?.read() ?? .waiting {
            case .waiting: break
            case .empty: Console.writeError("\nNothing was pasted yet. Paste the address, then press Enter: ")
            case .line(let text):
                return try Self.result(of: try await driver.answer(invitation.id, with: text))
            case .nothing:
                return try Self.result(ofCancelling: await driver.cancel(invitation.id), because: "nothing was pasted")
            }
            // The polling interval: this process is not told when the login ends.
            try? await Task.sleep(for: .milliseconds(200))
            let progress = try await driver.progress(invitation.id)
            if progress.isOver { return try Self.result(of: progress) }
        }
        return try Self.result(ofCancelling: await driver.cancel(invitation.id), because: "the login was interrupted")
    }

    /// The answer may have come just before, and count.
    private static func result(
        ofCancelling progress: LoginProgress?,
        because reason: String
    ) throws(CommandFailure) -> String {
        guard let progress else {
            throw CommandFailure(.failed, "\(reason); the gateway ends the login at its deadline")
        }
        if progress.token != nil { return try result(of: progress) }
        guard progress.isOver else {
            throw CommandFailure(
                .failed,
                "\(reason) when its token had come; authgateway status says whether it counts"
            )
        }
        throw CommandFailure(.failed, "\(reason); nothing was changed")
    }

    private static func result(of progress: LoginProgress) throws(CommandFailure) -> String {
        guard let token = progress.token else {
            throw CommandFailure(.failed, LogText.clean(progress.problem ?? "the login has no end yet"))
        }
        let end = token.remainingSeconds.map { "; the token ends in \(ConfigUnits.countdown($0))" } ?? ""
        let renewal = token.renewsAt == nil || !token.isServed ? "" : ", and is renewed before that"
        let state = "Logged in: \(token.credential) is \(token.state.rawValue)\(end)\(renewal).\n"
        return token.lacksRefreshToken == true ? state + lackOfRefreshToken(token) : state
    }

    private static func lackOfRefreshToken(_ token: TokenStatus) -> String {
        let end = token.expiresAt.map { "at \($0)" } ?? "when its token is rejected"
        return """
            The authorization server gave no refresh token, so this login ends \(end). Then log in again:
                \(GatewayCommand.line("login", token.credential))
            Many servers give one only if it is asked for, with the scope offline_access or with authorize_parameters.

            """
    }
}

/// How the person wants to log in.
package enum LoginWay: Sendable {
    case browser
    case paste
    case device

    fileprivate var order: LoginOrder.Way {
        switch self {
        case .browser: .browser
        case .paste: .paste
        case .device: .device
        }
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
