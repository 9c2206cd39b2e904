import AsyncHTTPClient
import Foundation
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization
import Testing

@testable import GatewayApp
@testable import GatewayLocalAuthority
@testable import GatewayProxy

@Suite(.timeLimit(.minutes(5)))
struct AdminServerTests {
    private let control = ScriptedControl(statuses: [
        TokenStatus(
            credential: "box-service[user:42]",
            strategy: "box_ccg",
            subject: "user:42",
            state: .valid,
            generation: 3,
            expiresAt: "2026-11-25T12:01:30.000Z",
            remainingSeconds: 90,
            isRenewable: true,
            lastError: "<script>alert(1)</script>"
        )
    ])

    @Test func healthAndReadinessAnswer() async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            let health = try await get("/healthz", port)
            #expect(health.status == .ok)
            #expect(health.text == "ok\n")
            #expect(try await get("/readyz", port).status == .ok)
        }
    }

    @Test func whoUsedACredentialNeedsNoBody() async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            let path = "/api/audit/who/box-service%5Buser%3A42%5D"
            let plain = try await post(path, port, token: adminToken)
            #expect(plain.status == .ok && plain.text.contains(#""by":"client""#), "\(plain.text)")
            let body = #"{"by": "status", "since": "2h"}"#
            let asked = try await post(path, port, token: adminToken, body: body)
            #expect(asked.text.contains(#""since":"2h""#) && asked.text.contains(#""by":"status""#))
            let wrong = try await post(path, port, token: adminToken, body: #"{"by": "day"}"#)
            #expect(wrong.status == .badRequest && wrong.text.contains("24h"), "\(wrong.text)")
        }
    }

    @Test func aBrowserIsToldWhichRequestsGoThroughTheGateway() async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            let script = try await get("/proxy.pac", port)
            #expect(script.status == .ok && script.type == ProxyAutoConfig.contentType)
            #expect(script.text.contains(#""https://api.box.com:443": "PROXY 127.0.0.1:8082""#))
        }
    }

    @Test func clientsThatStayKeepNobodyOut() async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            var clients: [any Channel] = []
            for _ in 0..<DescriptorShares.adminConnections(of: nil) + 10 {
                clients.append(
                    try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
                        .connect(host: "127.0.0.1", port: port).get()
                )
            }
            #expect(try await get("/healthz", port).status == .ok)
            // The oldest has given way.
            try await clients[0].closeFuture.get()
            for client in clients.dropFirst() { client.close(promise: nil) }
        }
    }

    @Test func aGatewayThatIsNotReadySaysWhyWhenAsked() async throws {
        try await withAdminServer(options(ScriptedControl(isReady: false))) { (port: Int) async throws in
            let brief = try await get("/readyz", port)
            #expect(brief.status == .serviceUnavailable)
            let verbose = try await get("/readyz?verbose", port)
            #expect(verbose.text.contains("it is draining"))
        }
    }

    @Test func theKeyIsReplacedForWhoHoldsTheAdminToken() async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            #expect(try await post("/api/key/rotate", port, token: nil).status == .unauthorized)
            #expect(try await post("/api/key/rotate", port, token: "wrong").status == .unauthorized)
            #expect(control.performed.isEmpty)
            let answer = try await post("/api/key/rotate", port, token: adminToken)
            #expect(answer.text == "{\"file\":\"/state/token.key.encryption\",\"tokens\":2}\n")
            #expect(control.performed == ["rotate key"])
        }
    }

    @Test func aBackupIsNotedForWhoHoldsTheAdminToken() async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            let path = "/api/state/backup"
            #expect(try await post(path, port, token: nil, body: #"{"keys":false}"#).status == .unauthorized)
            #expect(control.performed.isEmpty)
            let answer = try await post(path, port, token: adminToken, body: #"{"keys":false}"#)
            #expect(answer.text == "{\"instance\":\"1a2b3c4d\"}\n")
            #expect(try await post(path, port, token: adminToken, body: #"{ "keys": true }"#).status == .ok)
            #expect(control.performed == ["back up", "back up with keys"])
        }
    }

    /// It would be recorded as a backup without keys.
    @Test(arguments: [
        "", "{", "true", "{}", "[]", #"{"keys":"true"}"#, #"{"keys":1}"#, #"{"keys":null}"#, #"{"Keys":true}"#,
        #"{"keys":true,"keys":true}"#, #"{"keys":true,"more":1}"#,
    ])
    func aMalformedNoteOfABackupIsRefused(_ body: String) async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            let answer = try await post("/api/state/backup", port, token: adminToken, body: body)
            #expect(answer.status == .badRequest)
            #expect(answer.text.contains(#"The body must be JSON, for example {\"keys\": false}."#), "\(answer.text)")
            #expect(control.performed.isEmpty)
        }
    }

    @Test func metricsAreTextForPrometheus() async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            let answer = try await get("/metrics", port)
            #expect(answer.text == "up 1\n")
            #expect(answer.type?.hasPrefix("text/plain; version=0.0.4") == true)
        }
    }

    @Test func tokensAreListedWithoutAnySecret() async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            let answer = try await get("/api/tokens", port)
            let decoder = JSONDecoder()
            decoder.keyDecodingStrategy = .convertFromSnakeCase
            let decoded = try decoder.decode([TokenStatus].self, from: Data(answer.text.utf8))
            #expect(decoded.map(\.credential) == ["box-service[user:42]"])
            #expect(!answer.text.contains(adminToken))
        }
    }

    @Test func aChangeNeedsTheAdminToken() async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            let path = "/api/tokens/box-service%5Buser%3A42%5D/refresh"
            #expect(try await post(path, port, token: nil).status == .unauthorized)
            #expect(try await post(path, port, token: "wrong").status == .unauthorized)
            #expect(control.performed.isEmpty)
            #expect(try await post(path, port, token: adminToken).status == .ok)
            #expect(control.performed == ["refresh box-service[user:42]"])
        }
    }

    @Test(arguments: ["refresh", "revoke", "clear", "lock", "unlock", "reveal"])
    func everyOperationNeedsTheTokenAndReachesTheControl(_ verb: String) async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            let path = "/api/tokens/box-service%5Buser%3A42%5D/\(verb)"
            for token in [nil, "", "wrong"] {
                #expect(try await post(path, port, token: token).status == .unauthorized)
            }
            #expect(try await get(path, port).status == .notFound, "a link cannot do it")
            #expect(control.performed.isEmpty)
            let answer = try await post(path, port, token: adminToken)
            #expect(answer.status == .ok)
            #expect(answer.cacheControl == "no-store")
            #expect(control.performed == ["\(verb) box-service[user:42]"])
            #expect(answer.text.contains("shown-token") == (verb == "reveal"))
        }
    }

    @Test func aWeakerTokenIsAskedForByScopes() async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            let path = "/api/tokens/box-service%5Buser%3A42%5D/downscope"
            let body = #"{"scopes": ["a", "b"], "resource": "https://api.example/1"}"#
            #expect(try await post(path, port, token: nil, body: body).status == .unauthorized)
            for garbage in [
                "", "hello", "{}", #"{"scopes": "a"}"#, #"{"scopes": ["a", 1]}"#, #"{"scopes": [], "x": 1}"#,
            ] {
                #expect(try await post(path, port, token: adminToken, body: garbage).status == .badRequest)
            }
            #expect(control.performed.isEmpty)
            let answer = try await post(path, port, token: adminToken, body: body)
            #expect(answer.status == .ok)
            #expect(answer.cacheControl == "no-store")
            #expect(answer.text.contains("weak-token"))
            #expect(control.performed == ["downscope box-service[user:42] a b https://api.example/1 -"])
        }
    }

    @Test(arguments: [
        ("plain-token\n", "import"), (#"{"access_token":"a","refresh_token":"r","expires_in":60}"#, "import pair"),
        (#"{"access_token":"a","session_token":"s"}"#, "import pair"),
    ])
    func aTokenIsImported(_ body: String, as action: String) async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            let path = "/api/tokens/box-service%5Buser%3A42%5D/import"
            #expect(try await post(path, port, token: nil, body: body).status == .unauthorized)
            #expect(try await post(path, port, token: adminToken, body: body).status == .ok)
            #expect(control.performed == ["\(action) box-service[user:42]"])
        }
    }

    @Test(arguments: ["", "two words-canary", "{\"access_token\": 7}", "{\"canary\": 1}", "<html>canary</html>", "{"])
    func garbageIsRefusedAndNotRepeated(_ body: String) async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            let answer = try await post("/api/tokens/box-service/import", port, token: adminToken, body: body)
            #expect(answer.status == .badRequest)
            #expect(!answer.text.contains("canary"))
            #expect(control.performed.isEmpty)
        }
    }

    @Test func aTokenWithoutAnEndIsRefused() async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            let body = String(repeating: "a", count: ImportedToken.limitBytes + 1)
            let answer = try await post("/api/tokens/box-service/import", port, token: adminToken, body: body)
            #expect(answer.status.code == 413)
        }
    }

    @Test func theSizeOfDownscopeOptionsIsLimited() async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            let path = "/api/tokens/box-service%5Buser%3A42%5D/downscope"
            let limit = try #require(AdminAPI.operations.downscope.body.limit)
            let terms = #"{"scopes": ["a"], "resource": "https://api.example/1"}"#
            let longest = terms + String(repeating: " ", count: limit - terms.utf8.count)
            #expect(try await post(path, port, token: adminToken, body: longest).status == .ok)
            #expect(try await post(path, port, token: adminToken, body: longest + " ").status == .badRequest)
            #expect(control.performed.count == 1)
        }
    }

    @Test func theSizeOfAFormIsLimited() async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            let longest = "token=\(String(repeating: "x", count: AdminForm.limit - 6))"
            #expect(try await post("/", port, token: nil, body: longest).status == .unauthorized)
            #expect(try await post("/", port, token: nil, body: longest + "x").status.code == 413)
        }
    }

    @Test func aPersonOperatesOnAPageAndGivesTheTokenEachTime() async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            #expect(try await get("/", port).text.contains("/token?credential=box-service%5Buser%3A42%5D"))
            let page = try await get("/token?credential=box-service%5Buser%3A42%5D", port)
            #expect(page.status == .ok && page.text.contains("value=\"revoke\""))
            #expect(!page.text.contains("<script"))
            let form = "credential=box-service%5Buser%3A42%5D&operation=revoke"
            for token in ["", "wrong"] {
                let refused = try await post("/token", port, token: nil, body: "\(form)&token=\(token)")
                #expect(refused.status == .unauthorized)
            }
            #expect(control.performed.isEmpty)
            let done = try await post("/token", port, token: nil, body: "\(form)&token=\(adminToken)")
            #expect(done.status == .ok)
            #expect(control.performed == ["revoke box-service[user:42]"])
            #expect(try await get("/token?credential=nobody", port).status == .notFound)
        }
    }

    @Test func anUnknownCredentialIsAProblemDocument() async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            let answer = try await post("/api/tokens/nobody/clear", port, token: adminToken)
            #expect(answer.status == .notFound)
            #expect(answer.type == "application/problem+json")
        }
    }

    @Test func foreignHostsAndOriginsAreRefused() async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            #expect(try await get("/", port, fields: [("Host", "evil.example")]).status == .misdirectedRequest)
            let crossSite = try await get("/api/tokens", port, fields: [("Origin", "https://evil.example")])
            #expect(crossSite.status == .forbidden)
            #expect(!crossSite.text.contains("box-service"))
        }
    }

    @Test func thePageEscapesWhatItShowsAndForbidsOtherScripts() async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            let page = try await get("/", port)
            #expect(page.text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"))
            #expect(!page.text.contains("<script>"))
            #expect(page.text.contains("1 min 30 s"))
            #expect(page.policy?.contains("default-src 'none'") == true)
            #expect(page.policy?.contains("script-src 'self';") == true)
            #expect(page.policy?.contains("unsafe") == false)
            #expect(try await get("/style.css", port).type?.hasPrefix("text/css") == true)
        }
    }

    @Test func whatIsNotThereIsAProblemDocument() async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            let answer = try await get("/nothing", port)
            #expect(answer.status == .notFound)
            #expect(answer.type == "application/problem+json")
        }
    }

    @Test func aPortInUseIsReportedBeforeAnythingIsServed() async throws {
        try await withAdminServer(options(control)) { (port: Int) async throws in
            let second = makeAdminServer(options(control))
            await #expect(throws: IOError.self) { try await second.bind(host: "127.0.0.1", port: port) }
        }
    }

    /// They are accepted before it closes, and ready to be served only when it has closed.
    @Test func connectionsThatComeWhileItClosesEndQuietly() async throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "admin-\(UUID().uuidString).sock").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        let isClosing = Atomic(false)
        let held = Watched<[EventLoopPromise<Bool>]>([])
        let server = makeAdminServer(options(control))
        try await server.serve(try boundSocket(path)) { channel in
            guard isClosing.load(ordering: .relaxed) else { return channel.eventLoop.makeSucceededFuture(true) }
            let promise = channel.eventLoop.makePromise(of: Bool.self)
            held.update { $0.append(promise) }
            return promise.futureResult
        }
        async let serving: Void = server.run()
        let socket = try #require(path.addingPercentEncoding(withAllowedCharacters: .alphanumerics))
        let health = HTTPClientRequest(url: "http+unix://\(socket)/healthz")
        #expect(try await HTTPClient.shared.execute(health, timeout: .seconds(10)).status == .ok)

        isClosing.store(true, ordering: .relaxed)
        let (count, ends) = (16, Watched<[String]>([]))
        for _ in 0..<count { try await connect(path, ends) }
        defer { for promise in held.value { promise.succeed(false) } }
        try await held.until { $0.count == count }
        await server.close()
        for promise in held.value { promise.succeed(true) }
        let seen = try await ends.until { $0.count == count }
        #expect(seen == Array(repeating: "closed", count: count))
        await serving
    }

    @Test func anAddressThatWasTakenAndNeverServedIsGivenBack() async throws {
        let first = makeAdminServer(options(control))
        let port = try await first.bind(host: "127.0.0.1", port: 0)
        await first.close()
        let second = makeAdminServer(options(control))
        #expect(try await second.bind(host: "127.0.0.1", port: port) == port)
        await second.close()
    }
}

private let adminToken = "d0c0ffee"

private func options(_ control: ScriptedControl) -> AdminOptions {
    let now = UnixTime(rfc3339: "2026-11-25T12:00:00Z") ?? UnixTime(seconds: 0)
    return AdminOptions(control: control, token: Secret(adminToken), metrics: { "up 1\n" }, now: { now })
}

/// A unix socket that does not listen yet.
private func boundSocket(_ path: String) throws -> CInt {
    let descriptor = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)
    let address = try SocketAddress(unixDomainSocketPath: path)
    let status = unsafe address.withSockAddr { unsafe bind(descriptor, $0, socklen_t($1)) }
    try #require(status == 0)
    return descriptor
}

/// Connects and waits for the server to end the connection.
private func connect(_ path: String, _ ends: Watched<[String]>) async throws {
    _ = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .channelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(EndRecorder(ends))
            }
        }
        .connect(unixDomainSocketPath: path).get()
}

/// Notes how a connection ends: closed in good order, or with which error.
private final class EndRecorder: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let ends: Watched<[String]>
    private var failure: (any Error)?

    init(_ ends: Watched<[String]>) { self.ends = ends }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        failure = error
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        let end = failure.map { "\($0)" } ?? "closed"
        ends.update { $0.append(end) }
    }
}

private func get(_ path: String, _ port: Int, fields: [(String, String)] = []) async throws -> AdminAnswer {
    try await askAdmin(.GET, path, port, fields: fields)
}

private func post(_ path: String, _ port: Int, token: String?, body: String? = nil) async throws -> AdminAnswer {
    try await askAdmin(.POST, path, port, token: token, body: body)
}
