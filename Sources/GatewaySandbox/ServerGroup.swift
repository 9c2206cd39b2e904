import HTTPTypes
import Hummingbird
import HummingbirdCore
import Logging
import ServiceLifecycle

/// The servers of one sandbox, started and stopped together.
actor ServerGroup {
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
