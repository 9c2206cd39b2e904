package import GatewayConfiguration

/// A credential that is made from the token of another one (RFC 8693), its parent.
///
/// It is decoded before its parent is known, and of use only after ``made(from:)``. A block without a ``parent`` is whole.
package protocol DerivedStrategy: AuthStrategy {
    /// Reads `downscope` of a route, whose parent is the credential that the route names.
    init?(downscope fields: ConfigFields)

    /// The parent as the block names it; nil for a `downscope`, and for a token that others issue.
    var parent: ParentReference? { get }

    /// The whole credential.
    func made(from parent: any TokenGrant) throws(ParentRefusal) -> any AuthStrategy
}

/// The name of a parent, and where it stands.
package struct ParentReference: Hashable, Sendable {
    package let name: String
    package let span: SourceSpan
    package let path: ConfigPath

    package init(name: String, span: SourceSpan, path: ConfigPath) {
        self.name = name
        self.span = span
        self.path = path
    }
}

/// Why a token of that parent cannot be exchanged; says what to do.
package struct ParentRefusal: Error, Hashable, Sendable {
    package let message: String
    package init(_ message: String) { self.message = message }
}
