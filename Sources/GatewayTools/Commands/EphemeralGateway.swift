import Foundation
import GatewayApp
import GatewayFiles
import GatewayHTTP
import GatewayLocalAuthority
import GatewayProxy
import Glibc
import Logging
import Synchronization

/// A gateway for one program: with a state directory of its own, on free ports, gone without a trace afterwards.
struct EphemeralGateway: Sendable {
    private static let startLimit: Duration = .seconds(20)

    /// What can be asked while it serves.
    struct Place: Sendable {
        let offer: ProxyOffer
        let endpoint: ProxyEndpoint
        /// Its state directory.
        let folder: String
        /// Makes the token of the program, which acts as the client with this token.
        let beginRun: @Sendable (Secret?) -> Secret?
    }

    let configuration: String
    /// The client that the program acts as.
    let client: String?

    /// - Parameter body: Runs the program, and gives what to end with.
    func run(
        _ body: (ClientAccess, ForwardedSignals) async throws(CommandFailure) -> Int32
    ) async throws(CommandFailure) -> Int32 {
        let file = try ConfigurationFile(path: configuration, consequence: "nothing was started")
        let signals = try Self.signals()
        var plan = file.plan
        let token = try giveToken(&plan)
        let (result, failure) = try await Self.serve(plan) { place throws(CommandFailure) in
            let access = try ClientAccess(
                place.endpoint,
                of: place.offer,
                proof: token,
                token: place.beginRun(token?.token).map { ToolVariables.Token(known: $0) } ?? ToolVariables.Token(),
                configuration: configuration,
                stateDirectory: place.folder
            )
            if let status = Self.interruption(signals) { return status }
            return try await body(access, signals)
        }
        switch (result, failure) {
        // What has ended the gateway says more than that it did not start.
        case (.success(0), let failure?), (.failure, let failure?): throw failure
        default: return try result.get()
        }
    }

    /// Runs a gateway as long as `body` does, in a folder of its own. What an operator has locked is locked there, too.
    ///
    /// - Parameters:
    ///   - file: What the configuration says, and which clients may connect.
    ///   - body: Called when the gateway serves.
    /// - Returns: The result of `body`, and why the gateway ended, if it did not end by itself.
    static func serve<Value: Sendable>(
        _ file: Plan,
        _ body: (Place) async throws(CommandFailure) -> Value
    ) async throws(CommandFailure) -> (result: Result<Value, CommandFailure>, failure: CommandFailure?) {
        let folder = try makeFolder()
        // Also when a signal ends a program: it is passed on, and this process goes on to here.
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try copyLocks(CredentialLocks.path(in: file.stateDirectory), to: CredentialLocks.path(in: folder))
        let plan = file.ephemeral(in: folder)
        let log = LogTail()
        var options = GatewayOptions(output: LogOutput(format: .text) { log.add($0) })
        options.logLevel = .notice
        let gateway: Gateway
        do throws(CommandFailure) {
            gateway = try await Gateway(plan: plan, options: options)
        } catch {
            log.show()
            throw error
        }
        let running = Task { () -> CommandFailure? in
            defer { log.end() }
            do throws(CommandFailure) {
                try await gateway.run()
                return nil
            } catch {
                return error
            }
        }
        var result: Result<Value, CommandFailure>
        do throws(CommandFailure) {
            try await wait(for: gateway, log)
            result = .success(try await body(try place(of: gateway, plan)))
        } catch {
            result = .failure(error)
        }
        await gateway.stop()
        let failure = await running.value
        if failure != nil { log.show() }
        return (result, failure)
    }

    /// A gateway that is told to stop before it has started does not stop.
    private static func wait(for gateway: Gateway, _ log: LogTail) async throws(CommandFailure) {
        let deadline = ContinuousClock.now + startLimit
        while !gateway.isServing {
            guard !log.hasEnded, .now < deadline else {
                throw CommandFailure(
                    .failed,
                    "the program's gateway did not start within \(startLimit.components.seconds) s; to see why, "
                        + "run: authgateway run"
                )
            }
            try? await Task.sleep(for: .milliseconds(2))
        }
    }

    private static func place(of gateway: Gateway, _ plan: Plan) throws(CommandFailure) -> Place {
        let offer = ProxyOffer(plan, bound: gateway.listeners)
        guard case .endpoint(let endpoint) = offer.choice else {
            throw CommandFailure(.failed, "no listener is open")
        }
        return Place(offer: offer, endpoint: endpoint, folder: plan.stateDirectory) {
            gateway.control.beginOnlyRun(as: $0)
        }
    }

    // MARK: The client

    /// Gives the program a token of its own instead of the client's.
    ///
    /// - Returns: What the program proves itself with; nil where the configuration lets every user of this machine connect.
    private func giveToken(_ plan: inout Plan) throws(CommandFailure) -> ClientEnvironment.Proof? {
        let isOpenToUsers = plan.listeners.contains { if case .tcp = $0.address { true } else { false } }
        let access = plan.access
        let names = access.clients.map(\.name).sorted()
        guard let client else {
            guard access.requiresClient(on: .loopback) else { return isOpenToUsers ? nil : addClient(&plan.access) }
            throw CommandFailure(
                .usage,
                "the configuration asks for the token of a client (access.clients: \(names.joined(separator: ", "))); name "
                    + "the one whose place the program takes, with --client NAME. It needs no token"
            )
        }
        guard let index = access.clients.firstIndex(where: { $0.name == client }) else {
            throw ClientTokenSource.unknown(client, among: names)
        }
        let token = Self.newToken()
        plan.access.clients[index].tokens = [.token(token)]
        return ClientEnvironment.Proof(client: client, token: token)
    }

    /// A socket let only some users in; a port lets all of them in.
    private func addClient(_ access: inout AccessPlan) -> ClientEnvironment.Proof {
        let (name, token) = ("exec", Self.newToken())
        access.clients.append(AccessPlan.Client(name: name, proof: .token(token)))
        access.requireClient = .true
        return ClientEnvironment.Proof(client: name, token: token)
    }

    static func newToken() -> Secret {
        Secret(Hexadecimal.random(bytes: 32))
    }

    /// What an operator has locked is locked here, too.
    private static func copyLocks(_ path: String, to copy: String) throws(CommandFailure) {
        let locks: BoundedFile
        do throws(BoundedFile.Failure) {
            locks = try BoundedFile.read(path, limit: StoredLocks.limit)
        } catch {
            guard error != .missing else { return }
            throw CommandFailure(
                .failed,
                "\(path), which lists the locked credentials, cannot be read: \(error.message)"
            )
        }
        do throws(StateError) {
            try StateFile.write(String(decoding: locks.bytes, as: UTF8.self), to: copy)
        } catch {
            throw CommandFailure(error)
        }
    }

    // MARK: This process

    static func signals() throws(CommandFailure) -> ForwardedSignals {
        do throws(ForwardedSignals.SystemFailure) {
            return try ForwardedSignals()
        } catch {
            throw CommandFailure(.failed, "signals cannot be passed on: \(SystemError.text(error.code))")
        }
    }

    /// What to end with when a signal came before the program was started.
    static func interruption(_ signals: ForwardedSignals) -> Int32? {
        while let event = signals.next(milliseconds: 0) {
            switch event {
            case .sent(let signal), .typed(let signal): return 128 + signal
            case .child: continue
            }
        }
        return nil
    }

    private static let prefix = "authgateway-exec-"

    /// Removes what killed processes have left: no process holds its lock, and it is too old to be just being made.
    private static func removeAbandoned(in base: String) {
        let manager = FileManager.default
        for name in (try? manager.contentsOfDirectory(atPath: base)) ?? [] where name.hasPrefix(prefix) {
            let path = base + name
            guard let values = try? manager.attributesOfItem(atPath: path),
                let changed = values[.modificationDate] as? Date, changed.timeIntervalSinceNow < -600,
                FileStatus.owner(of: path) == geteuid(), !StateDirectory.isHeld(path)
            else { continue }
            try? manager.removeItem(atPath: path)
        }
    }

    /// A folder of this user alone. Without the lock of a state directory, another one removes it some time later.
    static func makeFolder() throws(CommandFailure) -> String {
        let parent = FileManager.default.temporaryDirectory.path(percentEncoded: false)
        let base = parent.hasSuffix("/") ? parent : parent + "/"
        removeAbandoned(in: base)
        let folder = "\(base)\(prefix)\(Hexadecimal.random(bytes: 8))"
        // FileManager sets the mode later: until then, others could put files there if the mask lets them.
        guard unsafe mkdir(folder, 0o700) == 0 else {
            throw CommandFailure(.failed, "no folder can be made in \(base); set TMPDIR to a writable one")
        }
        return folder
    }
}

/// The last lines of a log that is shown on a failure only, and whether more can come.
private final class LogTail: Sendable {
    private let isAtEnd = Atomic(false)
    private static let limit = 64 << 10
    private let text = Mutex("")

    func add(_ line: String) {
        text.withLock { text in
            text += line
            if text.utf8.count > Self.limit { text = String(text.suffix(Self.limit / 2)) }
        }
    }

    var hasEnded: Bool { isAtEnd.load(ordering: .relaxed) }
    func end() { isAtEnd.store(true, ordering: .relaxed) }
    func show() { Console.writeError(text.withLock { $0 }) }
}
