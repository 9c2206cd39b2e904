/// Only names that are ours are answered: in `Host` on loopback listeners, in an absolute target on all.
///
/// A page that rebinds its own name to 127.0.0.1 becomes same-origin with this listener, but its requests still carry that
/// name. And who takes the gateway for a proxy to anywhere must not have its request sent somewhere else.
struct HostRule: Sendable {
    let table: RouteTable

    func refusal(
        _ bytes: borrowing Span<UInt8>,
        _ authority: Authority,
        _ head: borrowing RequestHead,
        on listener: ListenerIdentity
    ) -> GatewayProblem? {
        guard listener.reach == .loopback || head.form == .absolute else { return nil }
        // HTTP/1.0 without Host: no browser does that.
        if authority.host.isEmpty { return head.isHTTP10 ? nil : Self.problem }
        guard authority.port == nil || authority.port == listener.port else {
            // Where ports are mapped, hosts of routes come with others; a name of the client's own machine is another server's.
            let isElsewhere = listener.reach != .loopback && table.knowsHost(bytes, authority.host)
            return isElsewhere && !Self.origin(bytes, authority.host).isLoopback ? nil : Self.problem
        }
        return isOurs(bytes, authority.host) ? nil : Self.problem
    }

    private func isOurs(_ bytes: borrowing Span<UInt8>, _ host: Range<Int>) -> Bool {
        if bytes.equalsLowercased(host, "127.0.0.1") || bytes.equalsLowercased(host, "localhost") { return true }
        return table.knowsHost(bytes, host) || Self.origin(bytes, host).isLoopbackAddress
    }

    private static func origin(_ bytes: borrowing Span<UInt8>, _ host: Range<Int>) -> Origin {
        Origin(scheme: .http, host: bytes.string(host).lowercased(), port: 80)
    }

    private static let problem = GatewayProblem(
        .misdirected,
        "This gateway answers for its own address and for the hosts and upstreams of its routes only."
    )
}

/// The rule for requests that a browser made: none may come from another origin unless it is listed.
struct OriginRule: Sendable {
    /// Lower case.
    let allowedOrigins: [[UInt8]]

    /// - Parameter own: The server in whose place the gateway answers, whose own pages may call.
    func refusal(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        own: InterceptedOrigin? = nil
    ) -> GatewayProblem? {
        guard head.present.contains(.origin) || head.present.contains(.secFetchSite) else { return nil }
        var isListed = false
        var isSameSite = true
        for field in head.section.fields {
            if field.kind == .origin {
                guard contains(bytes, field.value) || own?.isOrigin(field.value, of: bytes) ?? false else {
                    return Self.problem
                }
                isListed = true
            } else if field.kind == .secFetchSite {
                let value = field.value
                let isOwn = bytes.equalsLowercased(value, "none") || bytes.equalsLowercased(value, "same-origin")
                isSameSite = isSameSite && isOwn
            }
        }
        return isListed || isSameSite ? nil : Self.problem
    }

    private func contains(_ bytes: borrowing Span<UInt8>, _ value: Range<Int>) -> Bool {
        for origin in allowedOrigins where bytes.equalsLowercased(value, origin) { return true }
        return false
    }

    private static let problem = GatewayProblem(
        .originRefused,
        "A web page of another origin sent this. Add its origin to access.allow_origins if it may."
    )
}
