import AsyncHTTPClient
import GatewayCore
import NIOCore
import NIOHTTP1

/// Sends telemetry to a collector: verified TLS, no redirects, no proxy, one deadline for each batch.
struct OTLPClient: Sendable {
    enum Signal: String, Sendable {
        case traces
        case metrics
    }

    private static let answerLimit = 64 << 10

    private let client: HTTPClient
    private let base: String
    private let userAgent: String
    private let headers: [Injection.Field]

    init(_ plan: TelemetryPlan, version: String) {
        userAgent = "authgateway/\(version)"
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.proxy = nil
        configuration.httpVersion = .http1Only
        configuration.timeout.connect = .seconds(5)
        configuration.connectionPool.retryConnectionEstablishment = false
        client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        base = "\(plan.origin)\(plan.path)"
        headers = plan.headers
    }

    /// Ends within `limit`, whatever the collector does.
    ///
    /// - Returns: What the collector says; when it says nothing, it may take the batch later.
    func send(_ body: String, _ signal: Signal, within limit: Duration) async -> ExportSchedule.Answer {
        var request = HTTPClientRequest(url: "\(base)/v1/\(signal.rawValue)")
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        request.headers.add(name: "User-Agent", value: userAgent)
        for field in headers { field.value.withValue { request.headers.replaceOrAdd(name: field.name, value: $0) } }
        request.body = .bytes(ByteBuffer(string: body))
        let end = ContinuousClock.now + limit
        do {
            let response = try await client.execute(request, timeout: .nanoseconds(limit.wholeNanoseconds))
            // So that the connection can be used again. The time limit above ends with the head of the answer.
            _ = await Deadline.value(within: max(.zero, end - .now)) {
                try? await response.body.collect(upTo: Self.answerLimit)
            }
            return ExportSchedule.Answer(
                status: Int(response.status.code),
                retryAfter: response.headers.first(name: "Retry-After")
            )
        } catch {
            return .later(after: nil)
        }
    }

    /// Call it once, when nothing will follow.
    func shutdown() async {
        // Fails only when it was shut down before.
        try? await client.shutdown()
    }
}
