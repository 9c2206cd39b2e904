import GatewayConfiguration
import GatewayHTTP
import GatewayTesting

@testable import GatewayProxy
@testable import GatewayTokens

/// A gateway with some routes, one of which a request has found.
struct LinkFixture: Sendable {
    var routes: [RoutePlan]
    var line = "GET /api/items/7 HTTP/1.1"
    var host = "gw.example:8080"
    var publicURL: GatewayURL?
    var isTLS = false

    init(_ routes: [RoutePlan] = [Self.route("api", base: "/v2")]) { self.routes = routes }

    static func route(
        _ name: String,
        at upstream: String = "up.example",
        scheme: Origin.Scheme = .https,
        base: String = "",
        path: String? = nil,
        hosts: [String]? = nil,
        credential: Int? = 0,
        asUser: String? = nil
    ) -> RoutePlan {
        RoutePlan(
            name: name,
            upstream: Origin(scheme: scheme, authority: upstream) ?? Origin(scheme: scheme, host: "", port: 1),
            upstreamPath: base,
            matchPath: path ?? "/\(name)",
            matchHosts: hosts ?? ["\(name).localhost"],
            credential: credential,
            asUser: asUser.map { ActingUser(id: $0, field: UserField(name: "As-User", advice: "")) },
            span: SourceSpan(file: 0, line: 1, column: 1)
        )
    }

    /// - Returns: nil where the request cannot be read or finds no route.
    func rewriter() -> LinkRewriter? {
        let table = RouteTable(routes)
        return HeadText.request(Array("\(line)\r\n\(host.isEmpty ? "" : "Host: \(host)\r\n")\r\n".utf8)) {
            head,
            bytes -> LinkRewriter? in
            var name = head.host
            while !name.isEmpty, bytes[name.upperBound - 1] != UInt8(ascii: ":"), host.contains(":") {
                name = name.lowerBound..<name.upperBound - 1
            }
            if host.contains(":"), !name.isEmpty { name = name.lowerBound..<name.upperBound - 1 }
            guard let match = table.find(bytes, host: name, path: head.path) else { return nil }
            return LinkRewriter(
                head,
                bytes,
                match,
                of: LinkTable(routes, table: table),
                publicURL: publicURL,
                isTLS: isTLS
            )
        } ?? nil
    }

    /// What becomes of a field of a response.
    func field(_ name: String, _ value: String) -> String? {
        guard let rewriter = rewriter() else { return nil }
        let kind: FieldKind = name == "Set-Cookie" ? .setCookie : .uriReference
        switch rewriter.rewrite(kind, name: 0..<name.utf8.count, Array(value.utf8)) {
        case .unchanged: return "unchanged"
        case .dropped: return "dropped"
        case .replaced(let bytes): return String(decoding: bytes, as: UTF8.self)
        }
    }

    func location(_ value: String) -> String? { field("Location", value) }

    func destination(_ value: String) -> String? {
        guard let rewriter = rewriter() else { return nil }
        return rewriter.toUpstream(Array(value.utf8)).map { String(decoding: $0, as: UTF8.self) } ?? "unchanged"
    }
}
