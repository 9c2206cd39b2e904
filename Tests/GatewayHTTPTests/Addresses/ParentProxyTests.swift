import Testing

@testable import GatewayHTTP

@Suite("Proxies before upstreams", .timeLimit(.minutes(5)))
struct ParentProxyTests {
    private func server(_ text: String, _ scheme: Origin.Scheme = .https) throws -> Origin {
        try #require(Origin(scheme: scheme, authority: text))
    }

    /// golang.org/x/net/http/httpproxy, `TestUseProxy`, without what Go decides about names of this machine.
    @Test(arguments: [
        ("barbaz.net", "example.com, .barbaz.net", true), ("foobar.com", ".foobar.com", true),
        ("www.foobar.com", ".foobar.com", false), ("foobar.com", "foobar.com", false),
        ("www.foobar.com", "foobar.com", false), ("foofoobar.com", "foobar.com", true),
        ("foo.bar.foobar.com", "*.foobar.com", false), ("foobar.com", "*.foobar.com", true),
        ("192.168.1.3", "192.168.1.1", true), ("192.168.1.1", "192.168.1.1", false),
        ("192.168.1.1:8443", "192.168.1.1", false), ("[2001:db8::52:0:1]", "2001:db8::52:0:1", false),
        ("[2001:db8::52:0:2]", "[2001:db8::52:0:1]:443", true), ("[2001:db8::52:0:1]", "[2001:db8::52:0:1]:443", false),
        ("[2001:db8::52:0:1]:8443", "[2001:db8::52:0:1]:443", true), ("10.1.2.3", "10.0.0.0/8", false),
        ("11.1.2.3", "10.0.0.0/8", true), ("example.com", "10.0.0.0/8", true), ("FooBar.com", "FOOBAR.COM", false),
        ("foobar.com", "foobar.com:443", false), ("foobar.com:8443", "foobar.com:443", true),
        ("foobar.com", "foobar.com:80", true), ("www.foobar.com", ".foobar.com:443", false), ("anything", "*", false),
        ("10.1.1.1", "*", false), ("example.com", "", true), ("example.com", "a b,,%,1.2.3.4/99", true),
    ])
    func exceptions(name: String, list: String, isProxied: Bool) throws {
        var rule = ProxyRule(try ParentProxy("http://proxy:3128"), except: ProxyBypass(list: list))
        #expect((rule.parent(for: try server(name)) != nil) == isProxied)
        rule.exceptions = ProxyBypass()
        #expect(rule.parent(for: try server(name)) != nil)
    }

    @Test(arguments: ["exa mple.com", "10.0.0.1/8", "http://a", "a:b", "a:0", "", ".", "*.10.0.0.1"])
    func whatIsNoExceptionIsSaid(text: String) {
        var exceptions = ProxyBypass()
        let isTaken = exceptions.add(text)
        #expect(!isTaken)
    }

    @Test func aProxyForManyServersIsNotForThisMachine() throws {
        var rule = ProxyRule(try ParentProxy("http://proxy:3128"))
        #expect(rule.parent(for: try server("localhost:8443")) != nil)
        rule.sparesLoopback = true
        for name in ["localhost", "a.localhost", "127.0.0.1", "127.9.9.9:81", "[::1]"] {
            #expect(rule.parent(for: try server(name)) == nil)
        }
        #expect(rule.parent(for: try server("10.0.0.1")) != nil)
        #expect(ProxyRule.direct.parent(for: try server("example.com")) == nil)
    }

    @Test func theEnvironmentIsReadAsOthersReadIt() throws {
        let variables = [
            "https_proxy": "http://me:p%40ss@Proxy.example.com:3128/", "HTTP_PROXY": "proxy2:8080",
            "NO_PROXY": ".internal.example.com,10.0.0.0/8", "no_proxy": "*",
        ]
        let rule = try ProxyRule { variables[$0] }
        #expect(rule.https?.description == "http://proxy.example.com:3128")
        #expect(rule.https?.login == Secret("Basic bWU6cEBzcw=="))
        #expect(rule.parent(for: try server("a.internal.example.com")) == nil)
        #expect(rule.parent(for: try server("example.com"))?.origin.port == 3128)
        #expect(rule.parent(for: try server("example.com", .http))?.description == "http://proxy2:8080")
        #expect(rule.parent(for: try server("localhost")) == nil)
        #expect(try ProxyRule { _ in nil }.parents == [])
        #expect(try ProxyRule { _ in "" }.parents == [])
    }

    @Test(arguments: ["socks5://a:1", "ftp://a", "http://", "http://me:%zz@a:1", "http://a:1/path", "a b"])
    func aVariableThatIsNoProxyIsNamedAndNotShown(text: String) {
        let error = #expect(throws: UnusableInput.self) { try ProxyRule { $0 == "HTTPS_PROXY" ? text : nil } }
        #expect(error?.message.hasPrefix("the environment variable HTTPS_PROXY: ") == true)
        #expect(error?.message.contains("%zz") == false)
    }

    @Test(arguments: ["http://me:secret@proxy:1", "http://me@proxy:1"])
    func aURLOfTheConfigurationHasNoLogin(text: String) {
        let error = #expect(throws: UnusableInput.self) { try ParentProxy(text) }
        #expect(error?.message.contains("\"username\" and \"password\"") == true)
        #expect(error?.message.contains("secret") == false)
    }

    @Test func aProxyIsShownWithoutItsLogin() throws {
        var proxy = try ParentProxy("https://proxy.example.com")
        proxy.login = ParentProxy.basic(user: "me", password: Secret("canary"))
        #expect("\(proxy)" == "https://proxy.example.com:443")
        // RFC 7617 section 2.
        #expect(
            ParentProxy.basic(user: "Aladdin", password: Secret("open sesame"))
                == Secret("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
        )
    }

    @Test(arguments: [
        ("", ConnectAnswer.State.incomplete), ("HTTP/1.1 20", .incomplete),
        ("HTTP/1.1 200 OK\r\nA: b\r\n", .incomplete),
        ("HTTP/1.1 200 OK\r\n\r\n", .open(rest: [])), ("HTTP/1.0 200\n\n", .open(rest: [])),
        ("HTTP/1.1 299 x\r\n\r\n", .open(rest: [])), ("HTTP/1.1 200 a\rb\r\n\r\n", .open(rest: [])),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", .open(rest: [])),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", .open(rest: [])),
        ("HTTP/1.1 407 No\r\nContent-Length: 3\r\n\r\nabc", .refused(status: 407)),
        ("HTTP/1.1 301 x\r\nLocation: http://evil/\r\n\r\n", .refused(status: 301)),
        ("HTTP/1.1 101 x\r\n\r\n", .invalid("with status 101")),
        ("SSH-2.0-OpenSSH", .invalid("with something that is not HTTP")),
        ("HTTP/2 200\r\n\r\n", .invalid("with something that is not HTTP")),
        ("HTTP/1.1 2000 x\r\n\r\n", .invalid("with something that is not HTTP")),
        ("HTTP/1.1 099 x\r\n\r\n", .invalid("with something that is not HTTP")),
        ("\r\n", .invalid("with something that is not HTTP")),
        ("HTTP/1.2 200 OK\r\n\r\n", .invalid("with something that is not HTTP")),
    ])
    func theAnswerToCONNECT(text: String, state: ConnectAnswer.State) {
        var answer = ConnectAnswer()
        #expect(answer.receive(Array(text.utf8)) == state)
        // A proxy may send single bytes.
        var slow = ConnectAnswer()
        var found = slow.receive([UInt8]())
        for byte in text.utf8 where found == .incomplete { found = slow.receive([byte]) }
        #expect(found == state)
    }

    /// What stands there is the server's: TLS refuses what a proxy has put in.
    @Test(arguments: ["SSH-2.0", "HTTP/1.1 200 OK\r\n\r\n", "\r\n\r\n"])
    func whatFollowsTheAnswerIsPassedOn(rest: String) {
        var answer = ConnectAnswer()
        let all = Array("HTTP/1.1 100 a\r\n\r\nHTTP/1.1 200 OK\r\n\r\n\(rest)".utf8)
        #expect(answer.receive(all) == .open(rest: Array(rest.utf8)))
    }

    @Test func interimAnswersAreBounded() {
        var answer = ConnectAnswer()
        let interim = Array("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".utf8)
        var count = 0
        var state = ConnectAnswer.State.incomplete
        while state == .incomplete, count < 1000 {
            state = answer.receive(interim)
            count += 1
        }
        #expect(state == .invalid("with nothing but interim answers"))
        #expect(count <= ConnectAnswer.maximumBytes / interim.count + 1)
    }

    @Test func aTunnelIsAskedForWithTheLogin() throws {
        var proxy = try ParentProxy("http://p:1")
        let host = "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n"
        let server = try server("example.com.")
        #expect(String(decoding: proxy.connectHead(to: server), as: UTF8.self) == host + "\r\n")
        proxy.login = ParentProxy.basic(user: "a", password: Secret("b"))
        let more = "Via: 1.1 x\r\nProxy-Authorization: Basic YTpi\r\n\r\n"
        #expect(String(decoding: proxy.connectHead(to: server, via: "1.1 x"), as: UTF8.self) == host + more)
    }

    @Test(arguments: [
        (401, "does not accept the credential company (status 401)", GatewayProblem.HopError.proxyLoginRefused),
        (407, "does not accept the credential company (status 407)", .proxyLoginRefused),
        (403, "refuses connections to example.com:443 (status 403)", .proxyRefused),
        (504, "could not connect to example.com:443 (status 504)", .proxyRefused),
    ])
    func aRefusalNamesTheProxy(status: Int, words: String, error: GatewayProblem.HopError) throws {
        var proxy = try ParentProxy("https://p:1")
        (proxy.login, proxy.credential) = (Secret("Bearer canary"), "company")
        let problem = proxy.refusal(status: status, to: try server("example.com"))
        #expect(problem.error == error && problem.detail.hasPrefix("The proxy https://p:1 \(words)"))
        #expect(!problem.detail.contains("canary"))
        #expect(proxy.lockProblem { $0 == "company" }?.detail.contains("locked the credential company") == true)
        #expect(proxy.lockProblem { _ in false } == nil)
    }

    @Test func theHeadOfTheAnswerIsBounded() {
        func read(_ bytes: [UInt8]) -> ConnectAnswer.State {
            var answer = ConnectAnswer()
            return answer.receive(bytes)
        }
        let head = Array("HTTP/1.1 200 OK\r\nA: ".utf8)
        let short = head + Array(repeating: 0x61, count: ConnectAnswer.maximumBytes - head.count - 1)
        #expect(read(short) == .incomplete)
        #expect(read(short + [0x61]) == .invalid("with a head of more than 16 KiB"))
        #expect(
            read(short + [0x61] + Array("\r\n\r\n".utf8)) == .invalid("with a head of more than 16 KiB")
        )
    }
}
