import Foundation
import GatewayConfiguration
import GatewayEvents
import GatewayHTTP
import GatewayProxy
import GatewayTokens
import Glibc
import Logging
import NIOPosix

/// One whole exchange over real sockets: a client that is known by its token, gateway with a rule of what it may do and an
/// injected credential, origin.
///
/// Client and origin use plain system calls and ask for no memory, so that what is counted is the gateway's.
enum ExchangeBenchmark {
    static func make() async throws -> Benchmark {
        let origin = try PlainSocket.listen()
        startOrigin(origin)
        let span = SourceSpan(file: 0, line: 1, column: 1)
        var plan = RoutePlan(
            name: "bench",
            upstream: Origin(scheme: .http, host: "127.0.0.1", port: origin.port),
            upstreamPath: "",
            matchPath: "/",
            matchHosts: [],
            credential: 0,
            span: span
        )
        plan.clients = ["client"]
        plan.allow = [.init(methods: ["GET"], path: .all)]
        let source = FixedCredentialSource(
            name: "bench",
            strategy: "bearer",
            injection: .authorization(scheme: "Bearer", Secret("0123456789abcdef"))
        )
        let server = try ProxyServer(
            group: MultiThreadedEventLoopGroup(numberOfThreads: 1),
            configuration: ProxyConfiguration(
                routes: [ProxyRoute(plan: plan, source: source, number: 0)],
                access: AccessPlan(
                    clients: [.init(name: "client", proof: .token(Secret("token-of-a-client")))],
                    allowedOrigins: [],
                    requireClient: .auto
                ),
                limits: Limits(),
                sha256: { $0 }
            ),
            clock: BenchClock(),
            observer: SilentObserver(),
            logger: Logger(label: "bench")
        )
        let bound = try await server.bind([ListenerPlan(address: .tcp(host: "127.0.0.1", port: 0), span: span)])
        server.start()
        let client = try PlainSocket.connect(port: bound[0].port ?? 0)
        let request = Array(
            "GET /json HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\nAuthorization: Bearer token-of-a-client\r\n\r\n"
                .utf8
        )
        var answer = [UInt8](repeating: 0, count: 4096)
        return Benchmark(name: "one exchange, there and back over sockets", allocations: 1.1, repetitions: 20_000) {
            guard client.write(request), client.read(into: &answer, until: 1024) else {
                throw BenchmarkFailure.noAnswer
            }
        }
    }

    private static func startOrigin(_ listener: PlainSocket) {
        Thread.detachNewThread {
            let connection = listener.accept()
            let answer = Array(HeadBenchmarks.response.utf8) + [UInt8](repeating: 0x78, count: 1024)
            var request = [UInt8](repeating: 0, count: 4096)
            while connection.read(into: &request, until: 1), connection.write(answer) {}
        }
    }
}

final class BenchClock: GatewayClock {
    func now() -> Moment { Moment(monotonic: monotonic(), wall: UnixTime(milliseconds: 0)) }

    func monotonic() -> MonotonicTime {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return MonotonicTime(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }

    func sleep(for duration: Duration) async throws { try await Task.sleep(for: duration) }
}

final class SilentObserver: ExchangeObserver {
    func finished(_ record: borrowing ExchangeRecord) {}
    func denied(_ demand: CredentialRequest?, requestID: String, reason: ProblemKind) {}
}
