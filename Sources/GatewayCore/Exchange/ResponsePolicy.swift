/// Decides what becomes of response fields that could hand a client more than the response: sessions, credentials, and ways to
/// authenticate a connection that clients share.
package struct ResponsePolicy: Sendable {
    private let echo: CredentialLeakFilter?
    /// A bit for each ``FieldKind`` that has to be looked at.
    let concerned: UInt64

    /// - Parameters:
    ///   - allowsConnectionAuth: The upstream connection belongs to one client connection alone.
    ///   - echo: Finds the credential in URIs; nil where no target holds it.
    package init(
        cookies: CookiePolicy = .pass,
        allowsConnectionAuth: Bool = false,
        echo: CredentialLeakFilter? = nil
    ) {
        self.echo = echo
        var kinds: [FieldKind] = []
        if cookies.drops(.setCookie) { kinds.append(.setCookie) }
        if !allowsConnectionAuth { kinds.append(.wwwAuthenticate) }
        if echo != nil { kinds.append(.uriReference) }
        concerned = kinds.reduce(0) { $0 | 1 << UInt64($1.rawValue) }
    }

    /// Whether fields of this kind are not always passed on as they are.
    @inline(__always)
    package func concerns(_ kind: FieldKind) -> Bool { concerned >> UInt64(kind.rawValue) & 1 == 1 }

    package func rewrite(_ kind: FieldKind, _ value: [UInt8]) -> FieldRewrite {
        guard concerns(kind) else { return .unchanged }
        switch kind {
        case .setCookie: return .dropped
        case .wwwAuthenticate: return ConnectionAuthentication.rewrite(challenges: value)
        case .uriReference: return echo?.rewrite(value) ?? .unchanged
        default: return .unchanged
        }
    }
}
