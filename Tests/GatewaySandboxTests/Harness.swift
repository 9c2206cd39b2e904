import AsyncHTTPClient
import GatewayHTTP
import GatewaySandbox
import Logging
import NIOCore
import NIOHTTP1
import Synchronization

/// A sandbox on free ports and a client that follows no redirect; both end with the test.
struct Harness: Sendable {
    let sandbox: Sandbox
    private let client: HTTPClient

    static func run(
        lifetime: Int = 3600,
        _ body: (Harness) async throws -> Void
    ) async throws {
        var options = Sandbox.Options()
        options.tokenLifetime = lifetime
        let sandbox = try await Sandbox.start(options: options, logger: Logger(label: "sandbox"))
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.timeout.read = .seconds(10)
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        do {
            try await body(Harness(sandbox: sandbox, client: client))
        } catch {
            try await client.shutdown()
            await sandbox.stop()
            throw error
        }
        try await client.shutdown()
        await sandbox.stop()
    }

    enum Method: String { case get = "GET", post = "POST", put = "PUT", head = "HEAD" }

    enum Body {
        case none
        case text(String)
        /// `count` pieces of `size` bytes `x`.
        case pieces(count: Int, size: Int)
    }

    func environment(_ name: String) -> String { sandbox.environment["SANDBOX_\(name)"] ?? "" }

    func send(
        _ method: Method = .get,
        _ url: String,
        _ fields: [(String, String)] = [],
        body: Body = .none
    ) async throws -> Answer {
        var request = HTTPClientRequest(url: url)
        request.method = HTTPMethod(rawValue: method.rawValue)
        for (name, value) in fields { request.headers.add(name: name, value: value) }
        switch body {
        case .none: break
        case .text(let text): request.body = .bytes(ByteBuffer(string: text))
        case .pieces(let count, let size):
            let piece = ByteBuffer(repeating: UInt8(ascii: "x"), count: size)
            let pieces = AsyncStream<ByteBuffer>.pieces(piece, count: count)
            request.body = .stream(pieces, length: .known(Int64(count * size)))
        }
        let response = try await client.execute(request, timeout: .seconds(60))
        let bytes = try await response.body.collect(upTo: 1 << 20)
        return Answer(
            status: Int(response.status.code),
            fields: response.headers.map { ($0.name, $0.value) },
            body: Array(bytes.readableBytesView)
        )
    }

    /// Reads an answer of any size and says how many bytes came.
    func count(_ url: String) async throws -> Int {
        let response = try await client.execute(HTTPClientRequest(url: url), timeout: .seconds(60))
        var count = 0
        for try await piece in response.body { count += piece.readableBytes }
        return count
    }

    func form(_ url: String, _ body: String, _ fields: [(String, String)] = []) async throws -> Answer {
        let type = ("content-type", "application/x-www-form-urlencoded")
        return try await send(.post, url, fields + [type], body: .text(body))
    }

    func bearer(_ token: String?) -> [(String, String)] { [("Authorization", "Bearer \(token ?? "(none)")")] }

    // MARK: Steering

    @discardableResult
    func steer(_ origin: String, _ json: String) async throws -> Answer {
        try await send(.post, origin + "/_sandbox/switches", body: .text(json))
    }

    /// The number at `path` of the state, for example `token_calls.box`.
    func count(of path: String) async throws -> Int? {
        var value = try await send(.get, sandbox.addresses.upstream + "/_sandbox/state").json
        for name in path.split(separator: ".") { value = value?[String(name)] }
        guard case .number(let number)? = value else { return nil }
        return Int(number.value)
    }

    // MARK: Grants

    func boxToken(_ subject: String = "enterprise:1000001") async throws -> Answer {
        let parts = subject.split(separator: ":").map(String.init)
        return try await form(
            sandbox.addresses.box + "/oauth2/token",
            "grant_type=client_credentials&client_id=sandbox-box-client&client_secret=sandbox-box-secret"
                + "&box_subject_type=\(parts[0])&box_subject_id=\(parts[1])"
        )
    }

    func boxRefresh(_ token: String) async throws -> Answer {
        try await form(
            sandbox.addresses.box + "/oauth2/token",
            "grant_type=refresh_token&client_id=sandbox-box-client&client_secret=sandbox-box-secret&refresh_token=\(token)"
        )
    }

    func oauthToken(_ more: String = "grant_type=client_credentials") async throws -> Answer {
        try await form(
            sandbox.addresses.oauth + "/oauth/token",
            "client_id=sandbox-oauth-client&client_secret=sandbox-oauth-secret&" + more
        )
    }

    func dukeRefresh(_ access: String, _ session: String, shape: String = "dukemobile/ios") async throws -> Answer {
        try await send(
            .post,
            sandbox.addresses.duke + "/\(shape)/refresh",
            [("X-Access-Token", access), ("X-Session-Token", session)]
        )
    }

    func me(_ token: String?) async throws -> Answer {
        try await send(.get, sandbox.addresses.box + "/2.0/users/me", bearer(token))
    }

    func echo(_ fields: [(String, String)]) async throws -> Answer {
        try await send(.get, sandbox.addresses.upstream + "/echo", fields)
    }
}

struct Answer: Sendable {
    let status: Int
    let fields: [(name: String, value: String)]
    let body: [UInt8]

    init(status: Int, fields: [(String, String)], body: [UInt8]) {
        self.status = status
        self.fields = fields.map { (name: $0.0, value: $0.1) }
        self.body = body
    }

    var text: String { String(decoding: body, as: UTF8.self) }
    var json: JSONValue? { JSONValue(body) }

    func field(_ name: String) -> String? {
        fields.first { $0.name.lowercased() == name.lowercased() }?.value
    }

    subscript(name: String) -> JSONValue? { json?[name] }

    func string(_ name: String) -> String? { json?[name]?.string }
}

extension AsyncStream where Element == ByteBuffer {
    static func pieces(_ piece: ByteBuffer, count: Int) -> AsyncStream<ByteBuffer> {
        let remaining = Mutex(count)
        return AsyncStream {
            remaining.withLock { remaining in
                guard remaining > 0 else { return nil }
                remaining -= 1
                return piece
            }
        }
    }
}
