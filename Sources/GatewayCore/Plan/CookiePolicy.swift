/// What becomes of cookies on a route: `Cookie` in requests and `Set-Cookie` in answers (RFC 6265).
///
/// A cookie that an upstream sets on an authenticated answer is a session of the service account. With it a client could
/// go on past `allow`, a lock and the audit log.
package enum CookiePolicy: String, CaseIterable, Sendable {
    /// Neither the client's cookies nor the upstream's are forwarded.
    case drop
    /// Both are forwarded as they came. Apps for browsers need this.
    case pass

    /// Without a setting: dropped where the route injects a credential.
    package static func standard(injectsCredential: Bool) -> CookiePolicy { injectsCredential ? .drop : .pass }

    /// Whether a field of this kind is dropped, in a request as well as in an answer.
    @inline(__always)
    package func drops(_ kind: FieldKind) -> Bool { self == .drop && (kind == .cookie || kind == .setCookie) }

    /// The value of `Gateway-Note` in an answer that lost a `Set-Cookie`.
    package static let note = "cookies-dropped"

    /// What the log says once for each route, when the first answer loses a `Set-Cookie`.
    package static func warning(route: String) -> String {
        "The upstream of the route \(route) set a cookie, and the gateway dropped it."
            + " If clients need the upstream's cookies, set routes.\(route).cookies: pass."
    }
}
