/// Who trusts the local authority, as far as this machine shows it.
package struct AuthorityTrust: Hashable, Sendable {
    package struct Root: Hashable, Sendable {
        package let name: String
        package let endsAt: UnixTime
        package let fingerprint: String

        package init(name: String, endsAt: UnixTime, fingerprint: String) {
            self.name = name
            self.endsAt = endsAt
            self.fingerprint = fingerprint
        }
    }

    /// A file with certificates that programs trust.
    package struct Place: Hashable, Sendable {
        package enum Kind: String, Sendable {
            case system
            case java
            /// A variable of the environment names it.
            case variable
        }

        package let kind: Kind
        /// The path, or the variable.
        package let name: String
        /// How many of the roots it has; nil when it cannot be read.
        package let trusted: Int?

        package init(_ kind: Kind, _ name: String, trusted: Int?) {
            self.kind = kind
            self.name = name
            self.trusted = trusted
        }
    }

    package var roots: [Root]
    package var places: [Place]

    package init(roots: [Root], places: [Place]) {
        self.roots = roots
        self.places = places
    }

    package func state(of place: Place) -> String {
        guard let trusted = place.trusted else { return "cannot be read" }
        if trusted == 0 { return "not trusted" }
        return trusted < roots.count ? "trusted in part: \(trusted) of \(roots.count)" : "trusted"
    }

    /// Some of its certificates were installed, and others were made since.
    package var isInstalledInPart: Bool {
        places.contains { $0.kind != .variable && ($0.trusted ?? 0) > 0 && ($0.trusted ?? 0) < roots.count }
    }

    package var isTrustedBySystem: Bool { places.contains { $0.kind == .system && $0.trusted == roots.count } }
}
