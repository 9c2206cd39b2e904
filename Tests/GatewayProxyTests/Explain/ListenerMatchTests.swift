import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("Way in", .timeLimit(.minutes(5)))
struct ListenerMatchTests {
    private static let listeners = [
        BoundListener(address: .tcp(host: "127.0.0.1", port: 8080), port: 8080, isTLS: false),
        BoundListener(address: .tcp(host: "0.0.0.0", port: 8443), port: 8443, isTLS: true),
        BoundListener(address: .unix(path: "/run/gw", allowedUsers: []), port: nil, isTLS: false),
    ]

    private static func match(_ text: String, _ listeners: [BoundListener] = listeners) throws -> (
        ListenerMatch, head: String
    ) {
        guard case .request(let request) = try ExplainInput(text),
            let match = ListenerMatch(
                of: request,
                to: listeners,
                knowsHost: { ["box.localhost", "api.known.com"].contains($0) },
                isUpstream: { $0.host == "up.example" }
            )
        else { throw UnusableInput("no way in") }
        return (match, match.head(of: request, contentLength: request.contentLength))
    }

    @Test(arguments: [
        // The gateway's own addresses.
        ("http://127.0.0.1:8080/box/a?x=1", "GET /box/a?x=1 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"),
        ("http://localhost:8080", "GET / HTTP/1.1\r\nHost: localhost:8080\r\n\r\n"),
        ("http://[::1]:8080/a", "GET /a HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n"),
        ("https://10.1.2.3:8443/a", "GET /a HTTP/1.1\r\nHost: 10.1.2.3:8443\r\n\r\n"),
        ("/box/a", "GET /box/a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"),
        // Hosts of routes.
        ("http://box.localhost:8080/a", "GET /a HTTP/1.1\r\nHost: box.localhost:8080\r\n\r\n"),
        ("POST https://api.known.com/a", "POST /a HTTP/1.1\r\nHost: api.known.com\r\n\r\n"),
        // A name of a listener that other machines reach.
        ("https://gw.example:8443/a", "GET /a HTTP/1.1\r\nHost: gw.example:8443\r\n\r\n"),
        // Anything else is asked for by a proxy.
        ("https://up.example:8443/a", "GET https://up.example:8443/a HTTP/1.1\r\nHost: up.example:8443\r\n\r\n"),
        ("https://api.box.com/2.0?a", "GET https://api.box.com/2.0?a HTTP/1.1\r\nHost: api.box.com\r\n\r\n"),
        ("http://127.0.0.1:9999/a", "GET http://127.0.0.1:9999/a HTTP/1.1\r\nHost: 127.0.0.1:9999\r\n\r\n"),
        ("http://10.1.2.3:8080/a", "GET http://10.1.2.3:8080/a HTTP/1.1\r\nHost: 10.1.2.3:8080\r\n\r\n"),
    ])
    func theHeadIsTheOneThatAClientSends(_ text: String, _ head: String) throws {
        #expect(try Self.match(text).head == head)
    }

    @Test func curlIsReadWithItsProxyAndItsSocket() throws {
        let (proxy, head) = try Self.match(
            "curl -x http://127.0.0.1:8080 -H 'User-Agent:' -H 'Accept:' http://box.localhost/a"
        )
        #expect(proxy.form == .proxy && proxy.remarks.isEmpty)
        #expect(head == "GET http://box.localhost/a HTTP/1.1\r\nHost: box.localhost\r\n\r\n")
        let (tunnel, line) = try Self.match("curl -x http://elsewhere:1 https://api.box.com/a")
        #expect(tunnel.form == .connect && tunnel.remarks.count == 1)
        #expect(line.hasPrefix("GET api.box.com:443 HTTP/1.1\r\n") == false)
        #expect(line.hasPrefix("CONNECT api.box.com:443 HTTP/1.1\r\nHost: api.box.com:443\r\n"))
        let (socket, _) = try Self.match("curl --unix-socket /run/gw http://any/a")
        #expect(socket.listener.text == "unix:/run/gw" && socket.host == "any")
        #expect(
            socket.listener.connectionContext.reach == .unix && tunnel.listener.connectionContext.reach == .loopback
        )
        #expect(try Self.match("https://localhost:8443/").0.listener.connectionContext.reach == .network)
    }

    @Test func contentIsFramed() throws {
        #expect(try Self.match("curl -d 12345 http://localhost:8080/").head.contains("\r\nContent-Length: 5\r\n"))
        #expect(try Self.match("curl -d @f http://localhost:8080/").head.contains("\r\nTransfer-Encoding: chunked\r\n"))
        let own = try Self.match("curl -d 1 -H 'Content-Length: 9' http://localhost:8080/").head
        #expect(own.contains("Content-Length: 9") && !own.contains("Content-Length: 1"))
        let old = try Self.match("curl -0 --request-target '*' -X OPTIONS http://localhost:8080/").head
        #expect(old.hasPrefix("OPTIONS * HTTP/1.0\r\n"))
    }

    @Test func theWrongSchemeIsSaid() throws {
        #expect(try Self.match("https://localhost:8080/").0.remarks.first?.contains("speaks http;") == true)
        #expect(try Self.match("http://localhost:8443/").0.remarks.first?.contains("speaks https;") == true)
        #expect(throws: UnusableInput.self) { try Self.match("http://localhost:8080/", []) }
    }
}
