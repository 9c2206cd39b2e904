/// Another proxy, through which the gateway reaches a server (`proxy`).
///
/// An https server is reached through a tunnel (CONNECT, RFC 9110 section 9.3.6), so that the proxy sees its name and port alone. A
/// plain http server is asked for in absolute form (RFC 9112 section 3.2.2).
package struct ParentProxy: Hashable, Sendable, CustomStringConvertible {
    /// With the scheme https, the connection to the proxy itself is encrypted.
    package let origin: Origin
    /// The value of `Proxy-Authorization` (RFC 9110 section 11.7.2); nil sends none.
    package var login: Secret?
    /// The name of the credential that ``login`` comes from; nil for a user name and a password.
    package var credential: String?
    /// The PEM file with the certificate authorities that the proxy's certificate must come from; nil for the system's.
    package var caPath: String?

    package init(origin: Origin) { self.origin = origin }

    /// Never the login.
    package var description: String { "\(origin.scheme.rawValue)://\(origin.hostAndPort)" }

    /// The request for a tunnel (RFC 9110 section 9.3.6), with the login.
    ///
    /// - Parameter via: The value of `Via`, by which gateways notice a loop; empty sends none.
    package func connectHead(to server: Origin, via: String = "") -> [UInt8] {
        // A name without the dot of the root: most proxies compare it with their rules as it is written.
        let authority = server.hostAndPort
        var head = "CONNECT \(authority) HTTP/1.1\r\nHost: \(authority)\r\n"
        if !via.isEmpty { head += "Via: \(via)\r\n" }
        return Array(head.utf8) + loginLine.withValue { $0 } + Array("\r\n".utf8)
    }

    /// `Proxy-Authorization` with its CRLF; empty without a login.
    package var loginLine: SecretBytes {
        SecretBytes(login?.withValue { Array("Proxy-Authorization: \($0)\r\n".utf8) } ?? [])
    }

    /// - Parameter status: The status of a response to CONNECT that opens no tunnel.
    package func refusal(status: Int, to server: Origin) -> ProxyProblem {
        // tinyproxy answers a wrong password with 401.
        if status == 407 || status == 401 { return loginProblem(status) }
        let server = server.hostAndPort
        let detail =
            switch status {
            case 502, 503, 504: "The proxy \(self) could not connect to \(server) (status \(status))."
            default:
                "The proxy \(self) refuses connections to \(server) (status \(status)); allow the server in the proxy's rules."
            }
        return ProxyProblem(detail, .proxyRefused)
    }

    package func loginProblem(_ status: Int = 407) -> ProxyProblem {
        let what =
            credential.map { "does not accept the credential \($0)" }
            ?? (login == nil ? "requires a login" : "does not accept the user name and the password")
        let detail = "The proxy \(self) \(what) (status \(status)); see \"proxy\" in the configuration."
        return ProxyProblem(detail, .proxyLoginRefused)
    }

    /// - Parameter what: As ``ConnectAnswer`` says it.
    package func invalidAnswer(_ what: String) -> ProxyProblem {
        ProxyProblem("The proxy \(self) answered CONNECT \(what).", .proxyRefused)
    }

    /// - Returns: nil for an answer that opens the tunnel, or has not come as a whole.
    package func problem(of answer: ConnectAnswer.State, to server: Origin) -> ProxyProblem? {
        switch answer {
        case .incomplete, .open: nil
        case .refused(let status): refusal(status: status, to: server)
        case .invalid(let what): invalidAnswer(what)
        }
    }

    /// Why nothing may be sent to it now.
    ///
    /// - Parameter isLocked: Whether an operator has locked the credential of that name.
    package func lockProblem(_ isLocked: (String) -> Bool) -> ProxyProblem? {
        guard let credential, isLocked(credential) else { return nil }
        let detail = "An operator has locked the credential \(credential), which the proxy \(self) needs."
        return ProxyProblem(detail, .proxyLoginRefused)
    }

    /// It closed the connection before a tunnel was open.
    package var lost: ProxyProblem {
        ProxyProblem("The proxy \(self) closed the connection before it had opened a tunnel.", .proxyRefused)
    }

    /// The `Basic` login (RFC 7617 section 2).
    package static func basic(user: String, password: Secret) -> Secret {
        password.withValue { Secret("Basic \(Base64.encode(Array("\(user):\($0)".utf8)))") }
    }

    /// Reads a URL. In one with a login, user name and password may be percent-encoded (RFC 3986 section 3.2.1).
    ///
    /// - Parameter fromEnvironment: Takes what the variables of other programs hold: a login, and no scheme for http.
    package init(_ text: String, fromEnvironment: Bool = false) throws(UnusableInput) {
        let example = "expected the URL of a proxy, such as http://proxy.example.com:3128"
        var scheme = Origin.Scheme.http
        var rest = text[...]
        if let separator = text.firstRange(of: "://") {
            let name = text[..<separator.lowerBound].lowercased()
            guard !name.hasPrefix("socks") else { throw UnusableInput("SOCKS is not supported; \(example)") }
            guard let known = Origin.Scheme(rawValue: name) else { throw UnusableInput(example) }
            (scheme, rest) = (known, text[separator.upperBound...])
        } else if !fromEnvironment {
            throw UnusableInput(example)
        }
        if rest.hasSuffix("/") { rest = rest.dropLast() }
        if let at = rest.lastIndex(of: "@") {
            guard fromEnvironment else {
                throw UnusableInput("must not contain a user name or password; use \"username\" and \"password\"")
            }
            login = try Self.login(rest[..<at])
            rest = rest[rest.index(after: at)...]
        }
        guard let origin = Origin(scheme: scheme, authority: String(rest)), !origin.isRootedAddress else {
            throw UnusableInput(example)
        }
        self.origin = origin
    }

    private static func login(_ text: Substring) throws(UnusableInput) -> Secret {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        let decoded = parts.map { PercentEncoding.decode(String($0)) }
        guard let user = decoded[0], !user.contains(":"), hasNoControlCharacters(user),
            let password = decoded.count > 1 ? decoded[1] : "", hasNoControlCharacters(password)
        else { throw UnusableInput("the user name or password in it cannot be sent") }
        return basic(user: user, password: Secret(password))
    }

    /// User names and passwords must have none (RFC 7617 section 2).
    package static func hasNoControlCharacters(_ text: String) -> Bool {
        text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
    }
}

/// A failure of a ``ParentProxy``, or of the connection to it.
package struct ProxyProblem: Error, Hashable, Sendable {
    /// A sentence that names the proxy, and never its login.
    package let detail: String
    package let error: GatewayProblem.HopError

    package init(_ detail: String, _ error: GatewayProblem.HopError) { (self.detail, self.error) = (detail, error) }
}

/// Which servers are reached through which proxy: a `proxy` as the configuration has it.
package struct ProxyRule: Hashable, Sendable {
    /// For http servers.
    package var http: ParentProxy?
    /// For https servers.
    package var https: ParentProxy?
    package var exceptions = ProxyBypass()
    /// Servers on this machine are reached directly, because a proxy for many servers cannot reach them.
    package var sparesLoopback = false

    /// Reaches every server directly.
    package static let direct = ProxyRule()

    private init() {}

    package init(_ parent: ParentProxy, except exceptions: ProxyBypass = ProxyBypass()) {
        (http, https, self.exceptions) = (parent, parent, exceptions)
    }

    /// What the environment says to curl, Go and many other programs.
    package init(environment variable: (String) -> String?) throws(UnusableInput) {
        func first(_ name: String) -> String? {
            [name, name.lowercased()].lazy.compactMap(variable).first { !$0.isEmpty }
        }
        func parent(_ name: String) throws(UnusableInput) -> ParentProxy? {
            guard let text = first(name) else { return nil }
            do throws(UnusableInput) {
                return try ParentProxy(text, fromEnvironment: true)
            } catch {
                // The value may hold a password.
                throw UnusableInput("the environment variable \(name): \(error.message)")
            }
        }
        (http, https) = (try parent("HTTP_PROXY"), try parent("HTTPS_PROXY"))
        exceptions = ProxyBypass(list: first("NO_PROXY") ?? "")
        sparesLoopback = true
    }

    /// - Returns: nil where the server is reached directly.
    package func parent(for server: Origin) -> ParentProxy? {
        guard let parent = server.scheme == .https ? https : http else { return nil }
        if sparesLoopback, server.isLoopback { return nil }
        return exceptions.cover(server) ? nil : parent
    }

    /// The proxies that it names, each once.
    package var parents: [ParentProxy] {
        [https, http == https ? nil : http].compactMap(\.self)
    }
}

/// The servers that are reached without the proxy: `no_proxy`.
///
/// Read as Go reads it (golang.org/x/net/http/httpproxy): a name covers itself and the names below it, one that begins with a dot (or
/// `*.`) only those below it. An address and a network cover servers that are named by their address; no name is looked up. All of
/// them but networks may have a port. `*` covers everything.
package struct ProxyBypass: Hashable, Sendable {
    private enum Entry: Hashable, Sendable {
        case all
        case network(IPNetwork)
        case address(IPAddress, port: Int?)
        /// - Parameter suffix: Begins with a dot.
        case names(suffix: String, coversItself: Bool, port: Int?)
    }

    private var entries: [Entry] = []
    /// As they are written.
    package private(set) var texts: [String] = []

    package init() {}

    /// - Parameter list: Separated by commas. What cannot be read covers nothing.
    package init(list: String) {
        for part in list.split(separator: ",") { _ = add(String(part.filter { $0 != " " && $0 != "\t" })) }
    }

    /// - Returns: Whether the text is an exception.
    package mutating func add(_ text: String) -> Bool {
        guard let entry = Self.entry(text.lowercased()) else { return false }
        entries.append(entry)
        texts.append(text)
        return true
    }

    private static func entry(_ text: String) -> Entry? {
        if text == "*" { return .all }
        if text.contains("/") { return IPNetwork(text).map { .network($0) } }
        if let address = IPAddress(text) { return .address(address, port: nil) }
        let isBelow = text.hasPrefix("*.") || text.hasPrefix(".")
        let name = isBelow ? text.drop { $0 != "." }.dropFirst() : text[...]
        // Whether a port was given cannot be seen in the origin.
        guard let origin = Origin(scheme: .http, authority: String(name)) else { return nil }
        let hasPort = name.last != "]" && name.contains(":")
        let port = hasPort ? origin.port : nil
        if let address = IPAddress(origin.host) { return isBelow ? nil : .address(address, port: port) }
        return .names(suffix: ".\(origin.host)", coversItself: !isBelow, port: port)
    }

    func cover(_ server: Origin) -> Bool {
        let address = IPAddress(server.host)
        return entries.contains { entry in
            switch entry {
            case .all: true
            case .network(let network): address.map(network.contains) ?? false
            case .address(let own, let port): address == own && (port ?? server.port) == server.port
            case .names(let suffix, let coversItself, let port):
                (port ?? server.port) == server.port
                    && (server.host.hasSuffix(suffix) || coversItself && server.host == suffix.dropFirst())
            }
        }
    }
}

/// Reads the answer of a ``ParentProxy`` to a CONNECT.
///
/// Lenient where it costs nothing: lines may end with LF alone (RFC 9112 section 2.2), and what the fields say of content is ignored
/// (RFC 9110 section 9.3.6).
package struct ConnectAnswer: Sendable {
    package enum State: Hashable, Sendable {
        case incomplete
        /// The tunnel is open.
        ///
        /// - Parameter rest: What has come from the server already.
        case open(rest: [UInt8])
        case refused(status: Int)
        case invalid(String)
    }

    /// No proxy needs more for its heads, interim ones included.
    package static let maximumBytes = 16_384

    private var bytes: [UInt8] = []
    /// Where the head begins that is being read: behind interim answers.
    private var start = 0
    /// What was looked at, and is not looked at again: a proxy may send single bytes.
    private var scanned = 0
    private var lineLength = 0

    package init() {}

    /// - Parameter more: What has come since the last call. Nothing may come behind any other state than ``State/incomplete``.
    package mutating func receive(_ more: some Sequence<UInt8>) -> State {
        bytes += more
        while let end = headEnd() {
            switch status {
            case nil: return .invalid("with something that is not HTTP")
            case .some(200..<300): return .open(rest: Array(bytes[end...]))
            // An upgrade would make another protocol of the connection.
            case .some(101): return .invalid("with status 101")
            case .some(100..<200): start = end
            case .some(let status): return .refused(status: status)
            }
        }
        guard scanned < Self.maximumBytes else {
            let isHead = start == 0
            return .invalid(
                isHead ? "with a head of more than \(Self.maximumBytes / 1024) KiB" : "with nothing but interim answers"
            )
        }
        let begin = bytes[start...].prefix(7)
        return begin.elementsEqual("HTTP/1.".utf8.prefix(begin.count))
            ? .incomplete : .invalid("with something that is not HTTP")
    }

    /// Behind the empty line.
    private mutating func headEnd() -> Int? {
        while scanned < min(bytes.count, Self.maximumBytes) {
            switch bytes[scanned] {
            case 0x0A:
                scanned += 1
                if lineLength == 0 { return scanned }
                lineLength = 0
            case 0x0D:
                // What it means is known with the next byte.
                guard scanned + 1 < bytes.count else { return nil }
                if bytes[scanned + 1] != 0x0A { lineLength += 1 }
                scanned += 1
            default:
                lineLength += 1
                scanned += 1
            }
        }
        return nil
    }

    /// The status of the head that begins at ``start``.
    private var status: Int? {
        let end = bytes[start...].firstIndex { $0 == 0x0A || $0 == 0x0D } ?? bytes.endIndex
        return ResponseHeadDecoder.status(bytes.span, start..<end)
    }
}
