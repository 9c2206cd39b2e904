/// The keyed digest of a ``GrantIdentity``: names a token in the store without revealing an input.
package struct CredentialKey: Hashable, Sendable, CustomStringConvertible {
    /// Lower-case hexadecimal.
    package let digest: String
    package init(digest: String) { self.digest = digest }
    package var description: String { digest }
}
