import GatewayHTTP

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
        on listener: ConnectionContext
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
