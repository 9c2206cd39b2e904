/// Writes the fields of an HTTP/2 request as one head of HTTP/1.1 (RFC 9113 section 8.3.1).
///
/// ``RequestHeadDecoder`` reads that head. So a request that it refuses is refused here too, and nothing else than what it has
/// read is forwarded.
package struct HTTP2RequestHead: Sendable {
    private var fields = HTTP2FieldLines()
    private var method: String?
    private var scheme: String?
    private var authority: String?
    private var path: String?
    private var protocolName: String?
    private var hosts: [String] = []
    private var contentLength: String?
    private var hasWebSocketKey = false
    private var hasFields = false

    package init() {}

    /// An extended CONNECT (RFC 8441). For HTTP/1 it is an upgrade, and the stream is its tunnel.
    package var asksForWebSocket: Bool { method == "CONNECT" && protocolName == "websocket" }

    /// Takes the next field, in the order in which they came.
    ///
    /// - Returns: Why the request is malformed.
    package mutating func add(_ name: String, _ value: String) -> HTTP2Malformation? {
        if name.utf8.first == 0x3A { return addPseudo(name, value) }
        hasFields = true
        if name == "host" {
            hosts.append(value)
            return HTTP2FieldLines.check(value)
        }
        if name == "content-length" { contentLength = value }
        if name == "sec-websocket-key" { hasWebSocketKey = true }
        return fields.add(name, value)
    }

    private mutating func addPseudo(_ name: String, _ value: String) -> HTTP2Malformation? {
        guard !hasFields else { return .latePseudoField }
        if let reason = HTTP2FieldLines.check(value) { return reason }
        switch name {
        case ":method": return Self.set(&method, value)
        case ":scheme": return Self.set(&scheme, value)
        case ":authority": return Self.set(&authority, value)
        case ":path": return Self.set(&path, value)
        case ":protocol": return Self.set(&protocolName, value)
        default: return .unknownPseudoField
        }
    }

    private static func set(_ field: inout String?, _ value: String) -> HTTP2Malformation? {
        guard field == nil else { return .duplicatePseudoField }
        field = value
        return nil
    }

    /// - Parameters:
    ///   - hasContent: The stream goes on behind the fields.
    ///   - mustBeTLS: The connection stands for an `https` server. A request for another scheme then has an absolute target,
    ///     which tells the authorizer of it.
    ///   - webSocketKey: HTTP/1 wants one of each WebSocket (RFC 6455 section 4.1); HTTP/2 has none.
    /// - Returns: The whole head.
    package consuming func head(
        hasContent: Bool,
        mustBeTLS: Bool = false,
        webSocketKey: () -> String = { "" }
    ) throws(HTTP2Malformation) -> [UInt8] {
        if asksForWebSocket {
            guard contentLength == nil else { throw .contentLengthMismatch }
            return try webSocketHead(mustBeTLS: mustBeTLS, key: webSocketKey)
        }
        guard protocolName == nil else { throw .unknownProtocol }
        guard let method else { throw .missingPseudoField }
        guard FieldSyntax.isToken(method) else { throw .invalidMethod }
        let target = try target(method, mustBeTLS: mustBeTLS)
        if !hasContent, let contentLength, contentLength.utf8.contains(where: { $0 != 0x30 }) {
            throw .contentLengthMismatch
        }
        // What follows a CONNECT is no content.
        guard contentLength == nil, method != "CONNECT" else { return try written(method, target, with: "") }
        // Some servers answer 411 to a method that has a use for content and says nothing of it (RFC 9110 section 8.6).
        let none = Self.methodsWithContent.contains(method) ? "content-length: 0\r\n" : ""
        return try written(method, target, with: hasContent ? "transfer-encoding: chunked\r\n" : none)
    }

    private static let methodsWithContent: Set = ["POST", "PUT", "PATCH"]

    private consuming func webSocketHead(
        mustBeTLS: Bool,
        key: () -> String
    ) throws(HTTP2Malformation) -> [UInt8] {
        let target = try target("GET", mustBeTLS: mustBeTLS)
        let key = hasWebSocketKey ? "" : "sec-websocket-key: \(key())\r\n"
        return try written("GET", target, with: "connection: Upgrade\r\nupgrade: websocket\r\n\(key)")
    }

    /// - Parameter lines: Fields that HTTP/2 has in another form, each with its line end.
    private consuming func written(
        _ method: String,
        _ target: String,
        with lines: String
    ) throws(HTTP2Malformation) -> [UInt8] {
        try checkHosts()
        var head = HTTP2FieldLines()
        for part in [method, " ", target, " HTTP/1.1\r\n"] { head.append(part.utf8) }
        // Two that agree are one. More are left to the decoder, which refuses them.
        if let authority {
            head.append(host: authority)
        } else {
            for host in hosts { head.append(host: host) }
        }
        head.append(lines.utf8)
        fields.end()
        head.append(fields.bytes)
        return head.bytes
    }

    private func target(_ method: String, mustBeTLS: Bool) throws(HTTP2Malformation) -> String {
        if method == "CONNECT" {
            guard scheme == nil, path == nil else { throw .unknownPseudoField }
            guard let authority, !authority.isEmpty else { throw .missingPseudoField }
            guard !authority.utf8.contains(0x20) else { throw .invalidPath }
            return authority
        }
        guard let scheme, let path else { throw .missingPseudoField }
        guard scheme == "http" || scheme == "https" else { throw .invalidScheme }
        guard path.utf8.first == 0x2F || path == "*" && method == "OPTIONS", !path.utf8.contains(0x20) else {
            throw .invalidPath
        }
        guard mustBeTLS, scheme == "http", let authority = authority ?? hosts.first else { return path }
        return "http://\(authority)\(path == "*" ? "" : path)"
    }

    private func checkHosts() throws(HTTP2Malformation) {
        guard let authority else { return }
        for host in hosts where host.lowercased() != authority.lowercased() { throw .hostMismatch }
    }
}

extension HTTP2FieldLines {
    fileprivate mutating func append(host: String) {
        for part in ["host: ", host, "\r\n"] { append(part.utf8) }
    }
}
