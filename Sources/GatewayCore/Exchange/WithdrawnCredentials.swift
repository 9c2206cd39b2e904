/// The credentials that an operator has locked, revoked or cleared.
///
/// A token is known by its grant: an exchange may have begun with a source that a reload has replaced, or that has made room for
/// another one.
package struct WithdrawnCredentials: Sendable {
    private let sources: [CredentialKey: ObjectIdentifier]

    /// - Parameter sources: Those of the present configuration. One without a grant has nothing that can be withdrawn.
    package init(_ sources: [any CredentialSource]) {
        let pairs = sources.compactMap { source in source.grantKey.map { ($0, ObjectIdentifier(source)) } }
        self.sources = Dictionary(pairs) { first, _ in first }
    }

    package var isEmpty: Bool { sources.isEmpty }

    /// - Returns: What an exchange with this credential is told; nil where it may go on.
    package func event(
        _ credential: Credential,
        of source: any CredentialSource,
        at now: MonotonicTime
    ) -> ExchangeEvent? {
        guard let present = source.grantKey.flatMap({ sources[$0] }) else { return nil }
        // A source that was replaced may still offer what the present one has lost.
        guard present == ObjectIdentifier(source) else { return .sourceWithdrawn }
        // What came afterwards may be used.
        return credential.isOffered(at: now) ? nil : .withdrawn
    }
}
