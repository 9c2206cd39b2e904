/// Counts the changes of one record. A writer names the last change that it knows.
///
/// It never falls: a record that was removed keeps its revision.
package struct TokenRevision: Hashable, Comparable, Sendable {
    package let value: Int64

    package init(_ value: Int64) { self.value = value }

    /// Of a record that was never written.
    package static let none = TokenRevision(0)

    package var next: TokenRevision { TokenRevision(value == .max ? .max : value + 1) }

    package static func < (lhs: Self, rhs: Self) -> Bool { lhs.value < rhs.value }
}

/// What a store holds under a key.
package struct TokenEntry: Hashable, Sendable {
    /// nil when nothing was ever written, or when it was removed.
    package var token: StoredToken?
    package var revision: TokenRevision

    package init(token: StoredToken?, revision: TokenRevision) {
        self.token = token
        self.revision = revision
    }

    package static let nothing = TokenEntry(token: nil, revision: .none)
}

/// The right of one gateway to renew a token, until it ends.
///
/// It is known by the revision that it gave the record. Taking the record over raises that.
/// A lease that was released or has ended raises nothing: its holder may write until somebody else does.
package struct TokenLease: Hashable, Sendable {
    package let key: CredentialKey
    package let revision: TokenRevision

    package init(key: CredentialKey, revision: TokenRevision) {
        self.key = key
        self.revision = revision
    }
}
