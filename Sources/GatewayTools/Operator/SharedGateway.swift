import Foundation
import GatewayApp
import GatewayConfiguration
import GatewayFiles
import GatewayHTTP
import GatewayLocalAuthority
import GatewayProxy

/// A gateway whose configuration and files this user does not read: another user's of this machine, or one of another machine.
///
/// Its admin listener says what a program needs, without secrets. The user brings the client token.
struct SharedGateway: Sendable {
    private let admin: NamedAdmin
    /// Who has to listen at the address; nil where a person typed it.
    private let owner: UInt32?

    private init(_ named: NamedAdmin) {
        admin = named
        owner = nil
    }

    private init(_ found: RunningGateways.Found) throws(CommandFailure) {
        guard let text = found.gateway.places?.admin, let address = ListenerPlan.Address(localAdmin: text) else {
            let process = found.gateway.process
            throw CommandFailure(
                .unreachable,
                "the gateway of another user (process \(process)) does not say where its admin listener is; name it: --admin URL"
            )
        }
        admin = NamedAdmin(recorded: address)
        owner = found.owner
    }

    /// The gateway that `exec` and `env` are for, where it is not one of this user.
    ///
    /// - Returns: nil where the gateway of a configuration is meant.
    /// - Throws: ``ExitStatus/usage`` when several run, ``ExitStatus/unreachable`` when none is found.
    static func find(_ options: GatewayPlace) throws(CommandFailure) -> SharedGateway? {
        if let named = try options.named() { return SharedGateway(named) }
        let running = RunningGateways(environment: Console.environment)
        let config = options.config
        if config.isNamed || FileStatus.owner(of: ConfigLocator.standard) != nil {
            guard let found = running.shared(configuration: SystemConfigFiles().absolutePath(config.name)) else {
                return nil
            }
            return try SharedGateway(found)
        }
        guard running.all().isEmpty else { return nil }
        let shared = running.shared()
        switch shared.count {
        case 0:
            throw CommandFailure(
                .unreachable,
                "no running gateway was found, and no \(ConfigLocator.standard) is here; name the gateway: --config FILE, or "
                    + "--admin URL for one of another user or machine"
            )
        case 1:
            let gateway = shared[0].gateway
            let path = LogText.clean(gateway.configuration)
            Console.writeError("The running gateway is that of \(path) (process \(gateway.process)).\n")
            return try SharedGateway(shared[0])
        default: throw CommandFailure(.usage, ConfigLocator.advice(onShared: shared.map(\.gateway)))
        }
    }

    /// Runs a program whose certificates are in a folder of its own, which is removed afterwards.
    func run(
        _ source: ClientTokenSource,
        _ body: (ClientAccess, ForwardedSignals) async throws(CommandFailure) -> Int32
    ) async throws(CommandFailure) -> Int32 {
        // Before there is something to remove: until then, a signal just ends this process.
        let answer = try await ask(source, isRun: true)
        let signals = try EphemeralGateway.signals()
        let folder = try EphemeralGateway.makeFolder()
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let lock: StateDirectory
        do throws(StateError) {
            lock = try StateDirectory(path: folder)
        } catch {
            throw CommandFailure(error)
        }
        defer { withExtendedLifetime(lock) {} }
        let access = try answer.access(folder: folder)
        if let status = EphemeralGateway.interruption(signals) { return status }
        return try await body(access, signals)
    }

    /// What a program needs whose certificates stay: nobody knows for how long the variables are used.
    func lastingAccess(_ source: ClientTokenSource) async throws(CommandFailure) -> ClientAccess {
        let folder = Self.lastingFolder(
            for: admin.place,
            cache: Console.environment("XDG_CACHE_HOME"),
            home: Console.environment("HOME")
        )
        guard let folder, let end = folder.lastIndex(of: "/") else {
            throw CommandFailure(.failed, "there is no folder for the certificates; set HOME or XDG_CACHE_HOME")
        }
        let answer = try await ask(source, isRun: false)
        do throws(PrivateFile.Failure) {
            // Who may write to this one decides whose certificates programs trust.
            try PrivateFile.ensureFolder(String(folder[..<end]))
        } catch {
            throw CommandFailure(
                .failed,
                "the folder for the certificates cannot be used: \(LogText.clean(error.reason)), or set XDG_CACHE_HOME to a folder of yours"
            )
        }
        return try answer.access(folder: folder)
    }

    /// - Parameters:
    ///   - place: The admin listener: each gateway has a folder of its own.
    ///   - cache: `XDG_CACHE_HOME`, which counts if it is absolute.
    ///   - home: `HOME`.
    static func lastingFolder(for place: String, cache: String?, home: String?) -> String? {
        let homeCache = home.flatMap { $0.hasPrefix("/") ? "\($0)/.cache" : nil }
        guard let base = cache.flatMap({ $0.hasPrefix("/") ? $0 : nil }) ?? homeCache else { return nil }
        let name = place.map { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == ".") ? $0 : "-" }
        return "\(base)/authgateway/\(String(name))"
    }

    /// What the admin listener said.
    private struct Answer {
        let endpoint: ProxyEndpoint
        let offer: ProxyOffer
        let proof: ClientEnvironment.Proof?
        let token: ToolVariables.Token
        let authority: String?

        func access(folder: String) throws(CommandFailure) -> ClientAccess {
            try ClientAccess(endpoint, of: offer, proof: proof, token: token, authority: authority, folder: folder)
        }
    }

    private func ask(_ source: ClientTokenSource, isRun: Bool) async throws(CommandFailure) -> Answer {
        try requireOwner()
        let client = AdminClient(admin)
        let overview = try await client.ask(AdminAPI.operations.overview)
        let offer = overview.proxy
        switch admin.remoteHost.map(offer.choice(at:)) ?? offer.choice {
        case .none(let reason): throw CommandFailure(.configuration, reason)
        case .endpoint(let endpoint):
            let authority = try await client.authority()
            // Who took the place of the gateway meanwhile may be who answered.
            try requireOwner()
            let proof = try source.proof(
                configuration: nil,
                clients: overview.clients,
                isNeeded: endpoint.requiresClientToken
            )
            let token = isRun ? await ClientAccess.token(of: client, offer, endpoint, proof) : ToolVariables.Token()
            return Answer(endpoint: endpoint, offer: offer, proof: proof, token: token, authority: authority)
        }
    }

    /// After the gateway has ended, anybody can listen at its port: that user would get the client token, and say which certificates
    /// programs trust.
    private func requireOwner() throws(CommandFailure) {
        guard let owner else { return }
        let found: Set<UInt32>
        switch admin.address {
        case .tcp(_, let port):
            found = SocketOwners.listening(at: port)
            guard !found.isEmpty else {
                throw CommandFailure(.unreachable, "the gateway no longer listens at \(admin.place)")
            }
        case .unix(let path, _):
            guard let user = FileStatus.owner(of: path) else {
                let advice = "name another admin listener, if the gateway has one: --admin URL"
                throw CommandFailure(.unreachable, "\(admin.place) cannot be reached by this user; \(advice)")
            }
            found = [user]
        }
        guard found.isSubset(of: [0, owner]) else {
            throw CommandFailure(
                .failed,
                "what listens at \(admin.place) does not belong to the user of the gateway (\(owner)); nothing was asked"
            )
        }
    }
}
