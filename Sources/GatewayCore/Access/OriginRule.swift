import GatewayHTTP

/// The rule for requests that a browser made: none may come from another origin unless it is listed.
struct OriginRule: Sendable {
    enum Decision {
        /// No page has sent it, or one of this origin.
        case passes
        case granted(CrossOriginGrant)
        case refused(GatewayProblem)
    }

    let policy: CrossOriginPolicy
    /// The list is the route's own.
    let isOfRoute: Bool

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
                let granted = policy.grant(bytes, field.value)
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

    /// Whether a program has sent the request that takes the URL which it connects to for its origin.
    ///
    /// A page that came through a route has this origin, too. Its browser then sends `Sec-Fetch` fields, but only over TLS and to a loopback
    /// name, so elsewhere there is no telling.
    static func isOfListener(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ authority: Authority,
        on listener: ConnectionContext
    ) -> Bool {
        guard head.form != .absolute, listener.engine == nil, !authority.host.isEmpty,
            listener.intercepted.map({ $0.listenerPort != nil }) ?? true
        else { return false }
        let scheme: Origin.Scheme = listener.isTLS ? .https : .http
        let port = authority.port ?? scheme.defaultPort
        let own = Origin(scheme: scheme, host: bytes.string(authority.host), port: port)
        guard listener.isTLS || listener.reach == .loopback && own.isLoopback else { return false }
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

    /// Of a request for which ``isOfListener(_:_:_:on:)`` holds, from a client that is not known.
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
            "A web page of another origin sent this. Add its origin to \(key) if it may."
        )
    }

    private static let null =
        "A web page that has no origin (Origin: null) sent this: a file, or a sandboxed frame. It cannot be allowed;"
        + " serve the page from an origin, and add that to access.allow_origins."
}
