import Foundation
import GatewayHTTP
import GatewayTokenClient
import GatewayTokens
import NIOSSL
import Testing

@Suite("Token client", .timeLimit(.minutes(5)))
struct OutgoingHTTPTests {
    private static let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: 1\r\nx-a: 2\r\n\r\n{}"

    private func send(
        _ script: HostileServer.Script,
        path: String = "/token",
        fields: [Injection.Field] = [],
        body: TokenRequest.Body = .form([TokenRequest.Parameter("grant_type", "client_credentials")]),
        deadline: Duration = .seconds(20)
    ) async throws -> (result: Result<TokenReply, TokenTransportFailure>, requests: [String]) {
        let server = try await HostileServer.start(script)
        let url = try AuthorityURL("http://127.0.0.1:\(server.port)\(path)")
        let result = try await send(TokenRequest(url: url, fields: fields, body: body), deadline: deadline)
        let requests = server.requests
        await server.stop()
        return (result, requests)
    }

    private func send(
        _ request: TokenRequest,
        extraTrustRoots: String? = nil,
        deadline: Duration = .seconds(20)
    ) async throws -> Result<TokenReply, TokenTransportFailure> {
        let endpoint =
            if let extraTrustRoots {
                try OutgoingHTTP(version: "1.2.3", extraTrustRoots: extraTrustRoots)
            } else {
                OutgoingHTTP(version: "1.2.3")
            }
        return await endpoint.send(request, deadline: deadline)
    }

    private func failure(
        _ script: HostileServer.Script,
        deadline: Duration = .seconds(20)
    ) async throws -> TokenTransportFailure? {
        try await send(script, deadline: deadline).result.failure
    }

    // MARK: What is sent

    @Test func aFormIsWrittenStrictlyAndWithoutExtras() async throws {
        let body = TokenRequest.Body.form([
            TokenRequest.Parameter("client_secret", "a b+c&d=e/ü~*"), TokenRequest.Parameter("scope", ""),
        ])
        let (result, requests) = try await send(.send(Self.ok), path: "/oauth2/token?x=1", body: body)
        #expect(try result.get().status == 200)
        let text = try #require(requests.first)
        let parts = text.components(separatedBy: "\r\n\r\n")
        #expect(parts.last == "client_secret=a+b%2Bc%26d%3De%2F%C3%BC~%2A&scope=")
        var lines = parts[0].components(separatedBy: "\r\n")
        #expect(lines.removeFirst() == "POST /oauth2/token?x=1 HTTP/1.1")
        let names = lines.map { $0.prefix { $0 != ":" }.lowercased() }.sorted()
        #expect(
            names.filter { $0 != "connection" } == [
                "accept", "accept-encoding", "content-length", "content-type", "host", "user-agent",
            ]
        )
        #expect(lines.contains("User-Agent: authgateway/1.2.3"))
        #expect(lines.contains("Accept: application/json"))
        #expect(lines.contains("Accept-Encoding: identity"))
        #expect(lines.contains("Content-Type: application/x-www-form-urlencoded"))
    }

    @Test func whatAURLMustNotContainIsEscaped() async throws {
        let (_, requests) = try await send(.send(Self.ok), path: #"/a{b}|"c"%41?d=<e>&f=^"#)
        #expect(requests.first?.hasPrefix("POST /a%7Bb%7D%7C%22c%22%41?d=%3Ce%3E&f=%5E HTTP/1.1\r\n") == true)
    }

    @Test func aPostWithoutABodySaysSo() async throws {
        let fields = [
            Injection.Field(name: "X-Access-Token", value: Secret("A")),
            Injection.Field(name: "X-Session-Token", value: Secret("S")),
        ]
        let (_, requests) = try await send(.send(Self.ok), fields: fields, body: .none)
        let text = try #require(requests.first)
        #expect(text.contains("\r\nX-Access-Token: A\r\nX-Session-Token: S\r\n"))
        #expect(text.lowercased().contains("content-length: 0\r\n"))
        #expect(!text.lowercased().contains("content-type"))
        #expect(text.hasSuffix("\r\n\r\n"))
    }

    @Test(arguments: ["a\r\nX-Evil: 1", "a\n", "a\0", ""])
    func aFieldThatCannotBeWrittenIsNotSent(_ value: String) async throws {
        let fields = [Injection.Field(name: "X-Access-Token", value: Secret(value))]
        let (result, requests) = try await send(.send(Self.ok), fields: fields)
        #expect(result.failure == TokenTransportFailure(.unsendable, mayHaveBeenProcessed: false))
        #expect(requests == [])
    }

    @Test func everyRequestHasItsOwnConnection() async throws {
        let server = try await HostileServer.start(.send(Self.ok))
        let endpoint = OutgoingHTTP(version: "1")
        let url = try AuthorityURL("http://127.0.0.1:\(server.port)/token")
        // The server answers one request per connection, so a second one on the first would wait for ever.
        for _ in 0..<3 {
            let reply = try await endpoint.send(TokenRequest(url: url), deadline: .seconds(10)).get()
            #expect(reply.status == 200)
        }
        #expect(server.requests.count == 3)
        await server.stop()
    }

    // MARK: What comes back

    @Test func theAnswerIsHandedOnAsItIs() async throws {
        let answer = "HTTP/1.1 429 Slow\r\nretry-after: 7\r\nContent-Length: 4\r\n\r\nbusy"
        let reply = try await send(.send(answer)).result.get()
        #expect(reply.status == 429)
        #expect(reply.field("Retry-After") == "7")
        #expect(reply.body == Array("busy".utf8))
    }

    @Test func aRedirectIsNotFollowed() async throws {
        let answer = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
        let (result, requests) = try await send(.send(answer))
        #expect(try result.get().status == 302)
        #expect(requests.count == 1)
    }

    @Test func aSlowAnswerThatEndsInTimeIsTaken() async throws {
        #expect(try await send(.drip(Self.ok)).result.get().status == 200)
    }

    @Test func theLongestAnswerIsTaken() async throws {
        let body = String(repeating: "x", count: 1 << 20)
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
        #expect(try await send(.send(answer)).result.get().body.count == 1 << 20)
    }

    @Test(arguments: [
        HostileServer.Script.endless(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            piece: "400\r\n" + String(repeating: "x", count: 1024) + "\r\n"
        ),
        .endless("HTTP/1.1 200 OK\r\n", piece: "X-Filler: " + String(repeating: "x", count: 1000) + "\r\n"),
        .endless("HTTP/1.1 200 OK\r\nX-Filler: ", piece: String(repeating: "x", count: 4096)),
        .endless("", piece: String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 100)),
        .send("HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n"),
        .send("HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n"),
    ])
    func aLongerAnswerIsCutOff(_ script: HostileServer.Script) async throws {
        #expect(try await failure(script) == TokenTransportFailure(.answerTooLarge, mayHaveBeenProcessed: true))
    }

    // MARK: Compression that was not asked for

    /// `{"access_token":"t"}` as gzip.
    static let compressed: [UInt8] = [
        31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 171, 86, 74, 76, 78, 78, 45, 46, 142, 47, 201, 207, 78, 205, 83, 178, 82, 42,
        81,
        170, 5, 0, 183, 200, 207, 180, 20, 0, 0, 0,
    ]

    private func head(_ coding: String, _ count: Int) -> String {
        "HTTP/1.1 200 OK\r\nContent-Encoding: \(coding)\r\nContent-Length: \(count)\r\n\r\n"
    }

    @Test(arguments: ["gzip", "GZip", "x-gzip", "X-GZIP", "gzip, identity", "identity, x-gzip"])
    func gzipIsUndone(_ coding: String) async throws {
        let head = head(coding, Self.compressed.count)
        let reply = try await send(.sendBytes(Array(head.utf8) + Self.compressed)).result.get()
        #expect(reply.body == Array(#"{"access_token":"t"}"#.utf8))
    }

    /// Zeros, garbage and further members (RFC 1952 section 2.2) do not cost what was read.
    @Test(arguments: [[0, 0, 0, 0], Array("garbage".utf8), OutgoingHTTPTests.compressed])
    func whatFollowsGzipIsIgnored(_ tail: [UInt8]) async throws {
        let body = Self.compressed + tail
        let reply = try await send(.sendBytes(Array(head("gzip", body.count).utf8) + body)).result.get()
        #expect(reply.body == Array(#"{"access_token":"t"}"#.utf8))
    }

    @Test func whatIsNotGzipIsRefused() async throws {
        var expected = TokenTransportFailure(.invalidAnswer, mayHaveBeenProcessed: true)
        expected.unreadableCoding = "gzip"
        #expect(try await failure(.send(head("gzip", 2) + "{}")) == expected)
        let half = Self.compressed.dropLast(12)
        #expect(try await failure(.sendBytes(Array(head("gzip", half.count).utf8) + half)) == expected)
    }

    @Test(arguments: [
        ("br", "br"), ("gzip, gzip", "gzip, gzip"), ("x-gzip, gzip", "gzip, gzip"), ("x", "unknown"),
        ("identity, BR", "br"),
    ])
    func anotherCompressionIsRefused(_ coding: String, _ shown: String) async throws {
        var expected = TokenTransportFailure(.invalidAnswer, mayHaveBeenProcessed: true)
        expected.unreadableCoding = shown
        #expect(try await failure(.send(head(coding, 2) + "{}")) == expected)
    }

    /// 2 MiB of spaces in 2 kB.
    @Test func whatIsUndoneHasTheLimitOfAnAnswer() async throws {
        let start: [UInt8] = [120, 218, 237, 193, 49, 1, 0, 0, 0, 194, 160, 42, 235, 159, 210, 24, 62, 64, 1]
        let spaces = start + [UInt8](repeating: 0, count: 2031) + [124, 13, 99, 40, 60, 1]
        let answer = Array(head("deflate", spaces.count).utf8) + spaces
        let expected = TokenTransportFailure(.answerTooLarge, mayHaveBeenProcessed: true)
        #expect(try await failure(.sendBytes(answer)) == expected)
    }

    @Test(arguments: ["SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", "\0\0\0\0\r\n\r\n"])
    func whatIsNotHTTPIsRefused(_ answer: String) async throws {
        let expected = TokenTransportFailure(.invalidAnswer, mayHaveBeenProcessed: true)
        #expect(try await failure(.sendAndClose(answer)) == expected)
    }

    // MARK: Deadlines

    @Test(arguments: [
        HostileServer.Script.silence,
        .send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"),
        .send("HTTP/1.1 200 OK\r\n"),
        .drip("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + String(repeating: "x", count: 1000)),
    ])
    func oneDeadlineHoldsForTheWholeOfIt(_ script: HostileServer.Script) async throws {
        let start = ContinuousClock.now
        let failure = try await failure(script, deadline: .seconds(2))
        #expect(failure == TokenTransportFailure(.responseTimeout, mayHaveBeenProcessed: true))
        #expect(ContinuousClock.now - start < .seconds(15))
    }

    @Test func cancellationEndsTheWait() async throws {
        let server = try await HostileServer.start(.silence)
        let endpoint = OutgoingHTTP(version: "1")
        let url = try AuthorityURL("http://127.0.0.1:\(server.port)/token")
        let sending = Task { await endpoint.send(TokenRequest(url: url), deadline: .seconds(3600)) }
        try await server.untilAsked()
        sending.cancel()
        #expect(await sending.value.failure?.mayHaveBeenProcessed == true)
        await server.stop()
    }

    // MARK: Connections

    @Test(arguments: [
        HostileServer.Script.cut,
        .sendAndClose("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"),
        .sendAndClose("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"),
    ])
    func anAnswerThatIsCutMayHaveBeenActedUpon(_ script: HostileServer.Script) async throws {
        #expect(try await failure(script) == TokenTransportFailure(.connectionLost, mayHaveBeenProcessed: true))
    }

    @Test func aRefusedPortFailsAtOnceAndNothingWasProcessed() async throws {
        let server = try await HostileServer.start(.cut)
        let url = try AuthorityURL("http://127.0.0.1:\(server.port)/token")
        await server.stop()
        let start = ContinuousClock.now
        let result = try await send(TokenRequest(url: url))
        #expect(result.failure == TokenTransportFailure(.connectionRefused, mayHaveBeenProcessed: false))
        #expect(ContinuousClock.now - start < .seconds(10))
    }

    @Test func anUnknownNameWasNotProcessed() async throws {
        let url = try AuthorityURL("https://no-such-host.invalid/token")
        let failure = try #require(try await send(TokenRequest(url: url)).failure)
        #expect(!failure.mayHaveBeenProcessed)
        // A resolver without a network may be silent instead.
        #expect([.nameNotResolved, .connectTimeout].contains(failure.reason))
    }

    // MARK: TLS

    /// Sends to a TLS server with `certificate`, trusting `roots` besides the system's.
    private func sendSecurely(
        to host: String = "127.0.0.1",
        certificate: String = TestCertificate.loopback,
        roots: String?,
        configure: (inout TLSConfiguration) -> Void = { _ in }
    ) async throws -> (result: Result<TokenReply, TokenTransportFailure>, requests: [String]) {
        var configuration = try TestCertificate.serverConfiguration(certificate)
        configure(&configuration)
        let server = try await HostileServer.start(.send(Self.ok), tls: configuration)
        let url = try AuthorityURL("https://\(host):\(server.port)/token")
        let result = try await withRoots(roots) { try await send(TokenRequest(url: url), extraTrustRoots: $0) }
        let requests = server.requests
        await server.stop()
        return (result, requests)
    }

    /// - Parameter body: Gets the path of a file of its own with that text.
    private func withRoots<Value>(_ text: String?, _ body: (String?) async throws -> Value) async throws -> Value {
        guard let text else { return try await body(nil) }
        let file = FileManager.default.temporaryDirectory.appending(path: "roots-\(UUID().uuidString).pem")
        defer { try? FileManager.default.removeItem(at: file) }
        try Data(text.utf8).write(to: file)
        return try await body(file.path)
    }

    private func tlsFailure(
        _ error: GatewayProblem.HopError,
        through proxy: ParentProxy? = nil
    ) -> TokenTransportFailure {
        var failure = TokenTransportFailure(.tlsFailed, mayHaveBeenProcessed: false)
        failure.tlsError = error
        failure.proxy = proxy?.description
        return failure
    }

    @Test func extraTrustRootsAreTrusted() async throws {
        let (result, _) = try await sendSecurely(roots: TestCertificate.loopback)
        #expect(try result.get().status == 200)
    }

    @Test func anUnknownIssuerIsRefused() async throws {
        let (result, requests) = try await sendSecurely(roots: nil)
        #expect(result.failure == tlsFailure(.certificateUntrusted))
        #expect(requests == [])
    }

    @Test func aCertificateForAnotherNameIsRefused() async throws {
        let (result, requests) = try await sendSecurely(
            certificate: TestCertificate.foreign,
            roots: TestCertificate.foreign
        )
        #expect(result.failure == tlsFailure(.certificateNamesOther))
        #expect(requests == [])
    }

    /// Such a certificate can be had by whoever can forge the answers of DNS, for an address of their own.
    @Test func aCertificateForTheAddressOfANameIsRefused() async throws {
        let (result, requests) = try await sendSecurely(to: "localhost", roots: TestCertificate.loopback)
        #expect(result.failure == tlsFailure(.certificateNamesOther))
        #expect(requests == [])
    }

    /// Sends through a proxy on 127.0.0.1, which answers with that certificate itself.
    ///
    /// - Parameters:
    ///   - proxyCertificate: nil for a proxy in clear text.
    ///   - trusted: What the proxy's certificate must come from; nil trusts the system's authorities.
    private func sendThroughProxy(
        to host: String,
        certificate: String,
        proxyCertificate: String? = nil,
        trusted: String? = nil
    ) async throws -> (
        result: Result<TokenReply, TokenTransportFailure>, requests: [String], proxy: ParentProxy
    ) {
        let configuration = try TestCertificate.serverConfiguration(certificate)
        let proxy = try await HostileServer.start(
            .send(Self.ok),
            tls: configuration,
            isProxy: true,
            proxyTLS: try proxyCertificate.map { try TestCertificate.serverConfiguration($0) }
        )
        let scheme = proxyCertificate == nil ? "http" : "https"
        var parent = try ParentProxy("\(scheme)://127.0.0.1:\(proxy.port)")
        var request = TokenRequest(url: try AuthorityURL("https://\(host)/token"))
        let result = try await withRoots(certificate) { roots in
            try await withRoots(trusted) { ca in
                parent.caPath = ca
                request.proxy = ProxyRule(parent)
                return try await send(request, extraTrustRoots: roots)
            }
        }
        let requests = proxy.requests
        await proxy.stop()
        return (result, requests, parent)
    }

    @Test(arguments: [nil, TestCertificate.loopback])
    func aServerBehindAProxyIsKnownByItsName(_ proxyCertificate: String?) async throws {
        let (result, requests, _) = try await sendThroughProxy(
            to: "id.example",
            certificate: TestCertificate.foreign,
            proxyCertificate: proxyCertificate,
            trusted: proxyCertificate
        )
        #expect(try result.get().status == 200)
        #expect(requests.count == 1)
    }

    @Test func aProxyIsOnItsCertificateToo() async throws {
        let (result, requests, _) = try await sendThroughProxy(
            to: "id.example",
            certificate: TestCertificate.foreign,
            proxyCertificate: TestCertificate.foreign,
            trusted: TestCertificate.foreign
        )
        let failure = try #require(result.failure)
        #expect(failure.proxyProblem?.detail.contains("does not name it") == true, "\(failure)")
        #expect(!failure.mayHaveBeenProcessed && failure.reason == .tlsFailed)
        #expect(requests == [])
    }

    /// The TLS library takes a certificate for the address that was dialled.
    @Test func aCertificateForTheAddressOfTheProxyIsRefused() async throws {
        let (result, requests, proxy) = try await sendThroughProxy(
            to: "id.example",
            certificate: TestCertificate.loopback
        )
        #expect(result.failure == tlsFailure(.certificateNamesOther, through: proxy))
        #expect(requests == [])
    }

    @Test(arguments: [("127.0.0.1", true), ("10.0.0.1", false), ("[::1]", false)])
    func anAddressBehindAProxyIsOnItsCertificate(_ host: String, _ isNamed: Bool) async throws {
        let (result, requests, proxy) = try await sendThroughProxy(to: host, certificate: TestCertificate.loopback)
        #expect(requests.count == (isNamed ? 1 : 0))
        #expect(result.failure == (isNamed ? nil : tlsFailure(.certificateNamesOther, through: proxy)))
    }

    /// What a proxy answers to CONNECT, which no token request follows.
    ///
    /// - Returns: What went wrong, and what the proxy was sent.
    private func failure(
        behind script: HostileServer.Script,
        deadline: Duration = .seconds(20)
    ) async throws -> (failure: TokenTransportFailure?, requests: [String], proxy: ParentProxy) {
        let server = try await HostileServer.start(script)
        var proxy = try ParentProxy("http://127.0.0.1:\(server.port)")
        proxy.login = ParentProxy.basic(user: "me", password: Secret("proxy-canary"))
        var request = TokenRequest(
            url: try AuthorityURL("https://id.example/token"),
            body: .form([TokenRequest.Parameter("client_secret", "token-canary")])
        )
        request.proxy = ProxyRule(proxy)
        let result = try await send(request, deadline: deadline)
        let requests = server.requests
        await server.stop()
        return (result.failure, requests, proxy)
    }

    @Test(
        "a proxy that answers CONNECT with anything but a tunnel is named, and gets no token request",
        arguments: [
            (.send("SSH-2.0-OpenSSH_9.2\r\n"), "with something that is not HTTP"),
            (.send("HTTP/1.1 302 Found\r\nLocation: https://evil.example/\r\n\r\n"), "(status 302)"),
            (.send("HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=\"a\"\r\n\r\n"), "(status 407)"),
            (.send("HTTP/1.1 101 Switching Protocols\r\n\r\n"), "with status 101"),
            (.endless("HTTP/1.1 200 OK\r\nA: ", piece: String(repeating: "a", count: 4096)), "more than 16 KiB"),
            (.endless("HTTP/1.1 200 OK\r\n", piece: "A: b\r\n"), "more than 16 KiB"),
            (.endless("", piece: "HTTP/1.1 100 Continue\r\n\r\n"), "with nothing but interim answers"),
            (.sendAndClose("HTTP/1.1 200 O"), "closed the connection before it had opened a tunnel"),
            (.cut, "closed the connection before it had opened a tunnel"),
        ] as [(HostileServer.Script, String)]
    )
    func aProxyThatOpensNoTunnelIsNamed(_ script: HostileServer.Script, _ words: String) async throws {
        let (failure, requests, proxy) = try await failure(behind: script)
        let problem = try #require(failure?.proxyProblem, "\(String(describing: failure))")
        #expect(problem.detail.contains(words) && problem.detail.hasPrefix("The proxy \(proxy) "), "\(problem)")
        #expect(failure?.mayHaveBeenProcessed == false)
        #expect(!"\(String(describing: failure))".contains("canary"))
        // One try: a proxy that asks for a login again and again is not asked again.
        #expect(requests.count == 1 && requests[0].hasPrefix("CONNECT id.example:443 HTTP/1.1\r\n"))
        #expect(!requests[0].contains("token-canary"))
    }

    @Test(arguments: [
        HostileServer.Script.silence, .drip("HTTP/1.1 200 OK\r\nA: " + String(repeating: "a", count: 900)),
    ])
    func aSlowProxyHasADeadline(_ script: HostileServer.Script) async throws {
        let start = ContinuousClock.now
        let (failure, _, proxy) = try await failure(behind: script, deadline: .seconds(1))
        #expect(failure?.reason == .connectTimeout)
        #expect(failure?.proxyProblem?.detail == "The proxy \(proxy) did not open a tunnel in time.")
        #expect(ContinuousClock.now - start < .seconds(15))
    }

    /// Behind its answer, the proxy puts in what the server has not said.
    @Test(arguments: [
        "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"access_token\":\"t\"}",
        "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"access_token\":\"t\"}",
    ])
    func whatAProxyPutsInIsNoAnswerOfTheServer(_ text: String) async throws {
        let (failure, requests, proxy) = try await failure(behind: .sendAndClose(text))
        #expect(
            failure?.proxy == proxy.description && failure?.mayHaveBeenProcessed == false,
            "\(String(describing: failure))"
        )
        #expect(failure?.proxyDetail == "The connection goes through the proxy \(proxy).")
        #expect(requests.count == 1)
    }

    @Test func tls11IsRefused() async throws {
        let (result, requests) = try await sendSecurely(roots: TestCertificate.loopback) {
            $0.minimumTLSVersion = .tlsv1
            $0.maximumTLSVersion = .tlsv11
        }
        #expect(result.failure?.reason == .tlsFailed && result.failure?.alert?.name == "protocol_version")
        #expect(requests == [])
    }

    @Test func aServerWithoutTLSIsRefused() async throws {
        let server = try await HostileServer.start(.sendAndClose("HTTP/1.1 400 Bad Request\r\n\r\n"))
        let url = try AuthorityURL("https://127.0.0.1:\(server.port)/token")
        let failure = try #require(try await send(TokenRequest(url: url), deadline: .seconds(2)).failure)
        #expect(!failure.mayHaveBeenProcessed)
        await server.stop()
    }

    @Test(arguments: ["/no/such/file.pem", "/dev/null"])
    func unusableTrustRootsAreAnError(_ path: String) {
        #expect(throws: UnusableInput.self) {
            _ = try OutgoingHTTP(version: "1", extraTrustRoots: path)
        }
    }
}

extension Result where Failure == TokenTransportFailure {
    fileprivate var failure: TokenTransportFailure? {
        guard case .failure(let failure) = self else { return nil }
        return failure
    }
}
