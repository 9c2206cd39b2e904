package import GatewayHTTP
package import GatewayTokens
import NIOCore
import NIOHTTP1

/// A request that the gateway makes on its own behalf: for a token, for keys, or with telemetry.
package struct OutgoingRequest: Sendable {
    let method: String
    let origin: Origin
    /// Path and query, as they stand in the first line.
    let target: String
    let fields: [Injection.Field]
    /// nil for a request that has none.
    let body: [UInt8]?
    /// The client certificate; nil for none.
    var tls: ClientTLS?
    /// What the connection goes through; nil for none.
    package var proxy: ParentProxy?

    /// - Parameter target: Begins with a slash, or is empty.
    package init(
        _ method: String,
        _ origin: Origin,
        _ target: String,
        fields: [Injection.Field] = [],
        body: [UInt8]? = nil
    ) {
        self.method = method
        self.origin = origin
        self.target = Self.written(target)
        self.fields = fields
        self.body = body
    }

    package init(
        _ method: String,
        _ url: AuthorityURL,
        fields: [Injection.Field] = [],
        body: [UInt8]? = nil
    ) {
        self.init(method, url.origin, String(url.target), fields: fields, body: body)
    }

    init(_ request: TokenRequest) {
        var fields = [Injection.Field(name: "Accept", value: Secret("application/json"))] + request.fields
        let body: [UInt8]?
        switch request.body {
        case .none:
            body = nil
        case .form(let parameters):
            let type = Secret("application/x-www-form-urlencoded")
            fields.append(Injection.Field(name: "Content-Type", value: type))
            body = FormEncoding.encode(parameters)
        case .content(let type, let content):
            fields.append(Injection.Field(name: "Content-Type", value: Secret(type)))
            body = content.withValue { Array($0.utf8) }
        }
        self.init(request.method.rawValue, request.url, fields: fields, body: body)
        tls = request.tls
        proxy = request.proxy?.parent(for: origin)
    }

    package func through(_ rule: ProxyRule?) -> OutgoingRequest {
        var request = self
        request.proxy = rule?.parent(for: origin)
        return request
    }

    /// - Returns: nil if it cannot be written, for example because a field value has a line break.
    func head(userAgent: String) -> HTTPRequestHead? {
        var headers = HTTPHeaders()
        headers.add(name: "Host", value: origin.authority)
        headers.add(name: "User-Agent", value: userAgent)
        // A server may send its tokens only once, so a response that is compressed anyway is decompressed.
        headers.add(name: "Accept-Encoding", value: "identity")
        for field in fields {
            guard FieldSyntax.isToken(field.name), field.value.withValue(FieldSyntax.isValue) else { return nil }
            field.value.withValue { headers.replaceOrAdd(name: field.name, value: $0) }
        }
        let mayHaveBody = ["POST", "PUT", "PATCH"].contains(method)
        headers.remove(name: "Transfer-Encoding")
        headers.remove(name: "Content-Length")
        if let length = body?.count ?? (mayHaveBody ? 0 : nil) {
            headers.add(name: "Content-Length", value: "\(length)")
        }
        return HTTPRequestHead(version: .http1_1, method: HTTPMethod(rawValue: method), uri: target, headers: headers)
    }

    /// Escapes characters that a URL must not contain (RFC 3986 section 2), although some configurations have them.
    private static func written(_ target: String) -> String {
        var bytes: [UInt8] = target.hasPrefix("/") ? [] : [UInt8(ascii: "/")]
        for byte in target.utf8 {
            if #""<>\^`{|}"#.utf8.contains(byte) || byte <= 0x20 || byte >= 0x7F {
                PercentEncoding.append(byte, to: &bytes)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
