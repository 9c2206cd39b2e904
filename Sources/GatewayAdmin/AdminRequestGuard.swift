import GatewayCore
import HTTPTypes

/// Decides whether a request may reach the admin listener at all.
///
/// A web page that the operator has open can make the browser speak to loopback: by rebinding its own name to 127.0.0.1
/// (then `Host` names the page) or by a cross-site request (then `Origin` or `Sec-Fetch-Site` says so). Both end here.
struct AdminRequestGuard: Sendable {
    enum AccessDecision: Hashable, Sendable {
        case pass
        /// RFC 9110 §15.5.20: the authority is not one of ours.
        case misdirected
        case originRefused
    }

    /// Lower case, without port, an IPv6 address in brackets. nil on a unix socket, which no browser reaches, and with TLS, where
    /// the certificate has told the browser whose name is ours.
    private let names: Set<String>?
    private let scheme: Origin.Scheme

    /// - Parameter host: What the listener is bound to; the loopback names are added. nil for a unix socket, where any name
    ///   will do.
    init(host: String?, isTLS: Bool = false) {
        scheme = isTLS ? .https : .http
        guard let host = host?.lowercased(), !isTLS else {
            names = nil
            return
        }
        names = ["127.0.0.1", "localhost", "[::1]", Origin.urlHost(host)]
    }

    /// - Parameters:
    ///   - authority: `Host`, or the authority of an absolute target.
    ///   - port: Of the listener.
    func decision(authority: String?, port: Int, fields: HTTPFields) -> AccessDecision {
        let authority = authority?.lowercased() ?? ""
        if let names {
            guard Self.isOne(of: names, authority, port: port) else { return .misdirected }
        }
        if let origin = fields[.origin] {
            guard origin.lowercased() == "\(scheme.rawValue)://\(authority)" else { return .originRefused }
        }
        if let site = fields.first(where: { $0.name.canonicalName == "sec-fetch-site" }) {
            guard site.value == "none" || site.value == "same-origin" else { return .originRefused }
        }
        return .pass
    }

    private static func isOne(of names: Set<String>, _ authority: String, port: Int) -> Bool {
        if port == 80, names.contains(authority) { return true }
        let suffix = ":\(port)"
        return authority.hasSuffix(suffix) && names.contains(String(authority.dropLast(suffix.count)))
    }
}
