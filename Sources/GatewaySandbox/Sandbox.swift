package import Logging
import ServiceLifecycle

/// A local Box-like authority with its API, a Duke-like mobile authorizer, an OAuth 2.0 server and an upstream that
/// accepts their tokens: five servers on loopback, all in memory, with switches for every failure.
///
/// Steered over HTTP: every server answers `GET /_sandbox/state`, `GET /_sandbox/requests`, `POST /_sandbox/reset` and
/// `POST /_sandbox/switches`.
package final class Sandbox: Service {
    /// Ports on 127.0.0.1, 0 for any that is free, and what to issue unless a switch says otherwise.
    package struct Options: Sendable {
        package var boxPort = 0
        package var boxDownloadsPort = 0
        package var dukePort = 0
        package var oauthPort = 0
        package var upstreamPort = 0
        /// Seconds that a token lives.
        package var tokenLifetime = 3600

        package init() {}
    }

    /// Origins as URLs without a slash at the end, for example `http://127.0.0.1:49152`.
    package struct Addresses: Hashable, Sendable {
        package var box = ""
        /// Where Box-like downloads are redirected to; it accepts no credential.
        package var boxDownloads = ""
        package var duke = ""
        package var oauth = ""
        package var upstream = ""
    }

    package let addresses: Addresses
    /// Addresses, and client ids, secrets and tokens that work, named `SANDBOX_…`.
    package let environment: [String: String]

    private let servers: ServerGroup

    private init(addresses: Addresses, environment: [String: String], servers: ServerGroup) {
        self.addresses = addresses
        self.environment = environment
        self.servers = servers
    }

    /// Returns when all five servers accept connections.
    ///
    /// - Throws: What the system says about a port that cannot be bound; no server runs then.
    package static func start(options: Options = Options(), logger: Logger) async throws -> Sandbox {
        let world = World(defaultLifetime: options.tokenLifetime)
        let servers = ServerGroup(world: world, options: options, logger: logger)
        let addresses = try await servers.start()
        let seeds = world.withState { state, _ in
            state.addresses = addresses
            return state.seeds
        }
        return Sandbox(
            addresses: addresses,
            environment: world.accounts.environment(seeds: seeds, addresses: addresses),
            servers: servers
        )
    }

    /// Runs until graceful shutdown or cancellation, then stops the servers.
    package func run() async throws {
        try? await gracefulShutdown()
        await stop()
    }

    /// Closes all servers; a request that takes longer than a second is cut off.
    package func stop() async { await servers.stop() }
}
