import AsyncHTTPClient
import FoundationEssentials
import GatewayAdmin
import GatewayCore
import NIOCore
import NIOHTTP1

/// Speaks to the admin listener of the gateway that runs on this machine.
struct AdminClient: Sendable {
    private static let answerLimit = 4 << 20

    /// Lives as long as the command.
    private static let client: HTTPClient = {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.proxy = nil
        configuration.timeout.connect = .seconds(5)
        // A gateway that is not there is to be reported, not waited for.
        configuration.connectionPool.retryConnectionEstablishment = false
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }()

    let host: String
    let port: Int
    let stateDirectory: String

    func tokens() async throws(CommandFailure) -> [TokenStatus] { try await get("/api/tokens") }
    func routes() async throws(CommandFailure) -> [RouteStatus] { try await get("/api/routes") }

    func readiness() async throws(CommandFailure) -> Readiness {
        let (status, body) = try await send("GET", "/readyz?verbose", token: nil)
        guard status == 200 || status == 503 else { throw refusal(status, body) }
        return try decode(body)
    }

    func refresh(_ credential: String) async throws(CommandFailure) -> TokenStatus {
        try await change(credential, "refresh")
    }

    func clear(_ credential: String) async throws(CommandFailure) -> TokenStatus {
        try await change(credential, "clear")
    }

    /// A refused reload is an answer, too.
    func reload() async throws(CommandFailure) -> ReloadReport {
        let (status, body) = try await sendAuthorized("POST", "/api/reload")
        guard status == 200 || status == 409 else { throw refusal(status, body) }
        return try decode(body)
    }

    func servedPlan() async throws(CommandFailure) -> ServedPlan {
        let (status, body) = try await sendAuthorized("GET", "/api/plan")
        guard status == 200 else { throw refusal(status, body) }
        return try decode(body)
    }

    private func change(_ credential: String, _ verb: String) async throws(CommandFailure) -> TokenStatus {
        let path = "/api/tokens/\(PercentEncoding.encode(credential))/\(verb)"
        let (status, body) = try await sendAuthorized("POST", path)
        guard status == 200 else { throw refusal(status, body) }
        return try decode(body)
    }

    /// With the admin token of the state directory.
    private func sendAuthorized(
        _ method: String,
        _ path: String
    ) async throws(CommandFailure) -> (status: Int, body: ByteBuffer) {
        let token = AdminToken.read(in: stateDirectory)
        let answer = try await send(method, path, token: token)
        guard answer.status == 401 else { return answer }
        let file = AdminToken.path(in: stateDirectory)
        let reason = token == nil ? "cannot be read" : "is not the one of the running gateway"
        throw CommandFailure(.failed, "\(file) \(reason); run this as the gateway's user, with its configuration")
    }

    private func get<Value: Decodable>(_ path: String) async throws(CommandFailure) -> Value {
        let (status, body) = try await send("GET", path, token: nil)
        guard status == 200 else { throw refusal(status, body) }
        return try decode(body)
    }

    func send(
        _ method: String,
        _ path: String,
        token: Secret?,
        body: [UInt8]? = nil
    ) async throws(CommandFailure) -> (status: Int, body: ByteBuffer) {
        var request = HTTPClientRequest(url: base + path)
        request.method = .RAW(value: method)
        if let token { request.headers.add(name: "Authorization", value: token.withValue { "Bearer \($0)" }) }
        if let body { request.body = .bytes(body) }
        do {
            // A renewal may take as long as an authority takes to answer.
            let response = try await Self.client.execute(request, timeout: .seconds(60))
            return (Int(response.status.code), try await response.body.collect(upTo: Self.answerLimit))
        } catch {
            let advice = "is the gateway running? Start it with: authgateway run"
            throw CommandFailure(.unreachable, "no gateway answers at \(base); \(advice)")
        }
    }

    private var base: String { "http://\(host.contains(":") ? "[\(host)]" : host):\(port)" }

    func decode<Value: Decodable>(_ body: ByteBuffer) throws(CommandFailure) -> Value {
        do {
            let decoder = JSONDecoder()
            decoder.keyDecodingStrategy = .convertFromSnakeCase
            return try decoder.decode(Value.self, from: Data(body.readableBytesView))
        } catch {
            throw CommandFailure(.unreachable, "what answers at \(base) is not an authgateway")
        }
    }

    /// A problem document in words.
    func refusal(_ status: Int, _ body: ByteBuffer) -> CommandFailure {
        let problem = JSONValue(Array(body.readableBytesView))
        guard let detail = problem?["detail"]?.string else {
            return CommandFailure(.failed, "the gateway answered with status \(status)")
        }
        let command = problem?["command"]?.string.map { "\nrun: \(LogText.clean($0))" } ?? ""
        return CommandFailure(.failed, LogText.clean(detail) + command)
    }
}
