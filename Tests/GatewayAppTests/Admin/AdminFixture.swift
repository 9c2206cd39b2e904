import AsyncHTTPClient
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix

@testable import GatewayApp

/// An admin listener that no address has yet.
func makeAdminServer(_ options: AdminOptions) -> AdminServer {
    AdminServer(
        group: MultiThreadedEventLoopGroup.singleton,
        options: options,
        logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    )
}

/// Serves the admin listener on a free port of 127.0.0.1 until `body` has returned.
func withAdminServer(_ options: AdminOptions, _ body: (Int) async throws -> Void) async throws {
    let server = makeAdminServer(options)
    let port = try await server.bind(host: "127.0.0.1", port: 0)
    async let serving: Void = server.run()
    do {
        try await body(port)
    } catch {
        await server.close()
        throw error
    }
    await server.close()
    await serving
}

/// One request to the admin listener on 127.0.0.1; the body of its response is not read yet.
func openAdmin(
    _ method: HTTPMethod,
    _ path: String,
    _ port: Int,
    token: String? = nil,
    fields: [(String, String)] = [],
    body: String? = nil
) async throws -> HTTPClientResponse {
    var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)\(path)")
    request.method = method
    if let token { request.headers.add(name: "Authorization", value: "Bearer \(token)") }
    for (name, value) in fields { request.headers.add(name: name, value: value) }
    if let body { request.body = .bytes(ByteBuffer(string: body)) }
    return try await HTTPClient.shared.execute(request, timeout: .seconds(10))
}

/// What the admin listener answers to one request.
func askAdmin(
    _ method: HTTPMethod,
    _ path: String,
    _ port: Int,
    token: String? = nil,
    fields: [(String, String)] = [],
    body: String? = nil
) async throws -> AdminAnswer {
    let response = try await openAdmin(method, path, port, token: token, fields: fields, body: body)
    let content = try await response.body.collect(upTo: 1 << 20)
    return AdminAnswer(status: response.status, fields: response.headers, text: String(buffer: content))
}

struct AdminAnswer {
    let status: HTTPResponseStatus
    let fields: HTTPHeaders
    let text: String

    var type: String? { fields.first(name: "Content-Type") }
    var policy: String? { fields.first(name: "Content-Security-Policy") }
    var cacheControl: String? { fields.first(name: "Cache-Control") }
    var retryAfter: String? { fields.first(name: "Retry-After") }
}
