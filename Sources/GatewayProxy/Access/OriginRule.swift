package import GatewayHTTP

/// The rule for requests that a browser made: none may come from another origin unless it is listed (CORS, section 3.2 of the Fetch
/// standard).
struct OriginRule: Sendable {
    enum Decision {
        /// No page has sent it, or one of this origin.
        case passes
        case granted(CrossOriginGrant)
        case refused(GatewayProblem)
    }

    private let grants: [CrossOriginGrant]
    /// The list is the route's own.
    private let isOfRoute: Bool

    /// - Parameters:
    ///   - origins: As browsers spell them.
    ///   - allowsCredentials: The page's requests may carry cookies.
    init(_ origins: [String], allowsCredentials: Bool, isOfRoute: Bool) {
        grants = origins.map { CrossOriginGrant(origin: $0.lowercased(), allowsCredentials: allowsCredentials) }
        self.isOfRoute = isOfRoute
    }

    /// Pages of some other origin may call.
    var answersPages: Bool { !grants.isEmpty }

    /// - Parameter own: The server in whose place the gateway answers, whose own pages may call.
    func decide(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        own: InterceptedOrigin? = nil
    ) -> Decision {
        guard head.present.contains(.origin) || head.present.contains(.secFetchSite) else { return .passes }
        var grant: CrossOriginGrant?
        var hasOrigin = false
        var isSameSite = true
        for field in head.section.fields {
            if field.kind == .origin {
                let granted = listedGrant(bytes, field.value)
                guard granted != nil || own?.isOrigin(field.value, of: bytes) ?? false,
                    !hasOrigin || granted === grant
                else { return .refused(problem(isNull: bytes.equalsLowercased(field.value, "null"))) }
                grant = granted
                hasOrigin = true
            } else if field.kind == .secFetchSite {
                let value = field.value
                let isOwn = bytes.equalsLowercased(value, "none") || bytes.equalsLowercased(value, "same-origin")
                isSameSite = isSameSite && isOwn
            }
        }
        if let grant { return .granted(grant) }
        return hasOrigin || isSameSite ? .passes : .refused(problem(isNull: false))
    }

    /// - Parameter value: The value of an `Origin`.
    private func listedGrant(_ bytes: borrowing Span<UInt8>, _ value: Range<Int>) -> CrossOriginGrant? {
        for grant in grants where bytes.equalsLowercased(value, grant.origin) { return grant }
        return nil
    }

    /// Whether a program has sent the request that takes the URL which it connects to for its origin.
    ///
    /// A page that came through a route has this origin, too. Its browser then sends `Sec-Fetch` fields, but only over TLS and to a loopback
    /// name, so elsewhere there is no telling.
    static func isOfListener(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ authority: Authority,
        on connection: ConnectionContext
    ) -> Bool {
        guard head.form != .absolute, connection.engine == nil, !authority.host.isEmpty,
            connection.intercepted.map({ $0.listenerPort != nil }) ?? true
        else { return false }
        let scheme: Origin.Scheme = connection.isTLS ? .https : .http
        let port = authority.port ?? scheme.defaultPort
        let own = Origin(scheme: scheme, host: bytes.string(authority.host), port: port)
        guard connection.isTLS || connection.reach == .loopback && own.isLoopback else { return false }
        let start = "\(scheme.rawValue)://"
        for field in head.section.fields {
            if field.kind == .origin {
                let value = bytes.string(field.value).lowercased()
                guard value.hasPrefix(start),
                    Origin(scheme: scheme, authority: String(value.dropFirst(start.count))) == own
                else { return false }
            } else if bytes.equalsLowercased(field.name.prefix(fetchMetadata.utf8CodeUnitCount), fetchMetadata) {
                return false
            }
        }
        return true
    }

    private static let fetchMetadata: StaticString = "sec-fetch-"

    /// The refusal of a request for which ``isOfListener(_:_:_:on:)`` holds, from a client that is not known.
    var unproven: GatewayProblem {
        GatewayProblem(
            .originRefused,
            "Origin is this listener's own, which pages served through the gateway also have. Authenticate as a client"
                + " (access.clients), omit Origin, or add it to \(key)."
        )
    }

    private var key: String { isOfRoute ? "allow_origins of the route" : "access.allow_origins" }

    private func problem(isNull: Bool) -> GatewayProblem {
        if isNull { return GatewayProblem(.originRefused, Self.null) }
        return GatewayProblem(
            .originRefused,
            "A web page from another origin sent this. To allow it, add its origin to \(key)."
        )
    }

    private static let null =
        "A web page that has no origin (Origin: null) sent this: a file, or a sandboxed frame. It cannot be allowed;"
        + " serve the page from an origin, and add that to access.allow_origins."
}

/// What a response says to the browser of a page that may read it.
package final class CrossOriginGrant: Sendable {
    package let origin: [UInt8]
    package let fields: [ProblemAnswer.Field]
    /// ``fields`` as lines of HTTP/1.
    package let lines: [UInt8]
    /// The page may read the fields of the response, too.
    let exposesFields: Bool

    fileprivate init(origin: String, allowsCredentials: Bool) {
        self.origin = Array(origin.utf8)
        var fields = [ProblemAnswer.Field(name: "Access-Control-Allow-Origin", value: origin)]
        if allowsCredentials { fields.append(.init(name: "Access-Control-Allow-Credentials", value: "true")) }
        fields.append(Self.vary)
        self.fields = fields
        lines = Self.lines(fields)
        exposesFields = true
    }

    private init() {
        origin = []
        fields = [Self.vary]
        lines = Self.lines([Self.vary])
        exposesFields = false
    }

    /// For requests that no page of another origin has sent: caches must not answer such a page with their responses.
    package static let unlisted = CrossOriginGrant()

    private static let vary = ProblemAnswer.Field(name: "Vary", value: "Origin")

    private static func lines(_ fields: [ProblemAnswer.Field]) -> [UInt8] {
        Array(fields.map { "\($0.name): \($0.value)\r\n" }.joined().utf8)
    }
}

/// The answer to a browser that asks whether a page may send a request (CORS preflight, section 3.2.2 of the Fetch standard).
///
/// A browser sends it without a client token, so it is answered before the client is asked for one, and by the gateway alone.
package final class Preflight: Sendable {
    /// Found by the request that is asked for; nil where none is.
    package let route: Int?
    package let answer: ProblemAnswer

    /// - Returns: nil where the request asks for nothing of that kind.
    init?(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        route: Int?,
        grant: CrossOriginGrant
    ) {
        guard head.present.contains(.accessControl), head.isOptions(bytes),
            let method = Self.value("access-control-request-method", of: head, bytes), FieldSyntax.isToken(method),
            method.utf8.count <= Self.maximumMethod
        else { return nil }
        self.route = route
        var fields = grant.fields.filter { $0.name != "Vary" }
        fields.append(ProblemAnswer.Field(name: "Vary", value: Self.vary))
        fields.append(ProblemAnswer.Field(name: "Access-Control-Allow-Methods", value: method))
        if let names = Self.value("access-control-request-headers", of: head, bytes), Self.areNames(names),
            names.utf8.count <= Self.maximumNames
        {
            fields.append(ProblemAnswer.Field(name: "Access-Control-Allow-Headers", value: names))
        }
        if Self.value("access-control-request-private-network", of: head, bytes) == "true" {
            fields.append(ProblemAnswer.Field(name: "Access-Control-Allow-Private-Network", value: "true"))
        }
        fields.append(ProblemAnswer.Field(name: "Access-Control-Max-Age", value: Self.maximumAge))
        answer = ProblemAnswer(status: 204, fields: fields)
    }

    /// The most bytes of names. The answer has to fit in a frame of HTTP/2, and a code for a byte of a name takes up to 15 bits.
    private static let maximumNames = 7680
    private static let maximumMethod = 256

    private static let vary = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers"
    /// A page that a reload takes away is not asked for again meanwhile: its requests are refused all the same.
    private static let maximumAge = "600"

    private static func value(
        _ name: StaticString,
        of head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> String? {
        for field in head.section.fields
        where field.kind == .accessControl && bytes.equalsLowercased(field.name, name) {
            return bytes.string(field.value)
        }
        return nil
    }

    private static func areNames(_ text: String) -> Bool {
        text.split(separator: ",").allSatisfy { name in
            let bytes = Array(name.utf8)
            let range = bytes.span.trimmed(bytes.indices)
            return FieldSyntax.isToken(String(decoding: bytes[range], as: UTF8.self))
        }
    }
}
