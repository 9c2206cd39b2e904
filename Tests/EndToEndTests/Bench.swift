import ArgumentParser
import AsyncHTTPClient
import Foundation
import GatewayHTTP
import GatewaySandbox
import Logging
import NIOCore
import NIOHTTP1
import Testing

@testable import GatewayApp
@testable import GatewayProxy
@testable import GatewayTools

/// A sandbox, a folder of its own, and gateways made from configuration text; all of it ends with the test.
struct Bench: Sendable {
    let sandbox: Sandbox
    let folder: URL

    static func run(
        tokenLifetime: Int = 3600,
        _ body: @Sendable (Bench) async throws -> Void
    ) async throws {
        var options = Sandbox.Options()
        options.tokenLifetime = tokenLifetime
        let sandbox = try await Sandbox.start(options: options, logger: quiet)
        let folder = FileManager.default.temporaryDirectory.appending(path: "gateway-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await body(Bench(sandbox: sandbox, folder: folder)))
        } catch {
            outcome = .failure(error)
        }
        await sandbox.stop()
        try FileManager.default.removeItem(at: folder)
        try outcome.get()
    }

    private static let quiet = Logger(label: "sandbox") { _ in SwiftLogNoOpLogHandler() }

    static let client = HTTPClient(
        eventLoopGroupProvider: .singleton,
        configuration: HTTPClient.Configuration(redirectConfiguration: .disallow)
    )

    /// Reads the configuration as `run` does. `body` is what follows the listeners and the state directory.
    func plan(_ body: String, state: String = "state", port: Int = 0) throws -> Plan {
        let text = """
            version: 1
            state_directory: ./\(state)
            listeners:
              proxy: [{address: "127.0.0.1:\(port)"}]
              admin: {address: "127.0.0.1:0"}
            \(body)
            """
        let file = folder.appending(path: "gateway.yaml")
        try text.write(to: file, atomically: true, encoding: .utf8)
        let path = file.path(percentEncoded: false)
        return try ConfigurationFile(path: path, overlay: sandbox.environment, consequence: "no gateway").plan
    }

    /// Runs a gateway for as long as `body` takes, then stops it gracefully.
    func withGateway(
        _ configuration: String,
        state: String = "state",
        _ body: @Sendable (RunningGateway) async throws -> Void
    ) async throws {
        let log = LogOutput(format: .json, write: { _ in })
        let options = GatewayOptions(output: log, logLevel: .critical)
        let gateway = try await Gateway(plan: try plan(configuration, state: state), options: options)
        async let running: Void = gateway.run()
        let outcome: Result<Void, any Error>
        do {
            let port = try #require(gateway.listeners.first?.port)
            outcome = .success(
                try await body(RunningGateway(gateway: gateway, port: port, folder: folder, state: state))
            )
        } catch {
            outcome = .failure(error)
        }
        await gateway.stop()
        try await running
        try outcome.get()
    }

    // MARK: The sandbox's counters and switches

    func state() async throws -> JSONValue {
        let answer = try await send(.GET, "\(sandbox.addresses.box)/_sandbox/state")
        return try #require(JSONValue(answer.body))
    }

    func tokenCalls() async throws -> Int {
        guard case .number(let count) = try await state()["token_calls_total"] else { return -1 }
        return Int(count.value)
    }

    func sandboxSwitch(_ json: String, at origin: String) async throws {
        let answer = try await send(.POST, "\(origin)/_sandbox/switches", body: json)
        try #require(answer.status == 200, "\(answer.text)")
    }
}

struct RunningGateway: Sendable {
    let gateway: Gateway
    let port: Int
    let folder: URL
    let state: String

    func get(_ path: String, _ fields: [(String, String)] = []) async throws -> Answer {
        try await send(.GET, "http://127.0.0.1:\(port)\(path)", fields)
    }

    func post(_ path: String, body: String) async throws -> Answer {
        try await send(.POST, "http://127.0.0.1:\(port)\(path)", body: body)
    }

    func admin(
        _ method: HTTPMethod = .GET,
        _ path: String,
        _ fields: [(String, String)] = []
    ) async throws -> Answer {
        try await send(method, "\(gateway.admin.boundText)\(path)", fields)
    }

    var adminToken: String {
        get throws {
            let file = folder.appending(path: "\(state)/admin.token")
            return try String(contentsOf: file, encoding: .utf8).trimmingCharacters(in: .whitespacesAndNewlines)
        }
    }

    /// The names of the audit log's events, once all that `needed` asks for have been written.
    ///
    /// First uses and replays are written behind the request's back, so that they may come a moment later.
    func events(including needed: String...) async throws -> [String] {
        let path = folder.appending(path: "\(state)/audit.sqlite").path(percentEncoded: false)
        let query = try AuditQueryCommand.parse(["--path", path, "--json"])
        for _ in 0..<200 {
            let rows = Rows()
            try await query.write { rows.add($0) }
            let names = rows.all.compactMap { JSONValue(Array($0.utf8))?["event"]?.string }
            if needed.allSatisfy(names.contains) { return names }
            try await Task.sleep(for: .milliseconds(25))
        }
        Issue.record("the audit log never had all of \(needed)")
        return []
    }
}

struct Answer: Sendable {
    let status: Int
    let headers: HTTPHeaders
    let body: [UInt8]

    var text: String { String(decoding: body, as: UTF8.self) }
    var json: JSONValue? { JSONValue(body) }
}

func send(
    _ method: HTTPMethod,
    _ url: String,
    _ fields: [(String, String)] = [],
    body: String? = nil
) async throws -> Answer {
    var request = HTTPClientRequest(url: url)
    request.method = method
    for (name, value) in fields { request.headers.replaceOrAdd(name: name, value: value) }
    if let body { request.body = .bytes(ByteBuffer(string: body)) }
    let response = try await Bench.client.execute(request, timeout: .seconds(30))
    let bytes = try await response.body.collect(upTo: 4 << 20)
    return Answer(
        status: Int(response.status.code),
        headers: response.headers,
        body: Array(bytes.readableBytesView)
    )
}
