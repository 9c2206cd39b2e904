import HTTPTypes
import Hummingbird
import HummingbirdCore
package import Logging
import NIOCore
import NIOHTTPTypes
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

/// The servers of one sandbox, started and stopped together.
private actor ServerGroup {
    private let group: ServiceGroup
    private let running: AsyncThrowingStream<(OriginName, Int), any Error>
    private let announce: AsyncThrowingStream<(OriginName, Int), any Error>.Continuation
    private var task: Task<Void, Never>?

    init(world: World, options: Sandbox.Options, logger: Logger) {
        var quiet = logger
        // What matters is thrown; the rest is about connections that end while servers close.
        quiet.logLevel = .critical
        let (running, announce) = AsyncThrowingStream.makeStream(of: (OriginName, Int).self)
        func server(_ origin: OriginName, port: Int, _ router: Router<SandboxContext>) -> any Service {
            Application(
                router: router,
                server: .http1(configuration: .init(additionalChannelHandlers: [ContinueHandler()])),
                configuration: ApplicationConfiguration(
                    address: .hostname("127.0.0.1", port: port),
                    serverName: "sandbox",
                    backlog: 2048
                ),
                onServerRunning: { channel in announce.yield((origin, channel.localAddress?.port ?? port)) },
                logger: quiet
            )
        }
        let services = [
            server(.box, port: options.boxPort, BoxAuthority(world: world).router()),
            server(.boxDownloads, port: options.boxDownloadsPort, BoxDownloads(world: world).router()),
            server(.duke, port: options.dukePort, DukeAuthorizer(world: world).router()),
            server(.oauth, port: options.oauthPort, OAuthServer(world: world).router()),
            server(.upstream, port: options.upstreamPort, Upstream(world: world).router()),
        ]
        var configuration = ServiceGroupConfiguration(services: services, logger: quiet)
        configuration.maximumGracefulShutdownDuration = .seconds(1)
        group = ServiceGroup(configuration: configuration)
        self.running = running
        self.announce = announce
    }

    /// Returns the addresses when the last server accepts.
    func start() async throws -> Sandbox.Addresses {
        task = Task { [group, announce] in
            do {
                try await group.run()
                announce.finish()
            } catch {
                announce.finish(throwing: error)
            }
        }
        var ports: [OriginName: Int] = [:]
        for try await (origin, port) in running {
            ports[origin] = port
            if ports.count == OriginName.allCases.count { break }
        }
        func url(_ origin: OriginName) throws -> String {
            guard let port = ports[origin] else { throw CancellationError() }
            return "http://127.0.0.1:\(port)"
        }
        return Sandbox.Addresses(
            box: try url(.box),
            boxDownloads: try url(.boxDownloads),
            duke: try url(.duke),
            oauth: try url(.oauth),
            upstream: try url(.upstream)
        )
    }

    func stop() async {
        await group.triggerGracefulShutdown()
        await task?.value
    }
}

/// What travels with one request: its connection, so that a switch can cut it, and its number in the journal.
struct SandboxContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    let channel: any Channel
    var sequence = -1

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
    }

    /// Closes the connection; the returned answer is dropped.
    func cut() async throws -> Response {
        try? await channel.close()
        return .empty(.internalServerError)
    }
}

/// Answers `Expect: 100-continue` at once; the server below does not.
private final class ContinueHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundOut = HTTPResponsePart

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .head(let head) = unwrapInboundIn(data), head.headerFields[.expect]?.lowercased() == "100-continue" {
            context.writeAndFlush(wrapOutboundOut(.head(HTTPResponse(status: .continue))), promise: nil)
        }
        context.fireChannelRead(data)
    }
}

/// The servers of a sandbox; each has an address, switches and counters of its own.
enum OriginName: String, CaseIterable, Sendable {
    case box
    case boxDownloads = "box_downloads"
    case duke
    case oauth
    case upstream
}
