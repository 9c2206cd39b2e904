/// Whether the user at the other end of a unix socket may connect.
package enum PeerUserRule {
    /// The number that Linux shows for every user without one in the namespace of this process (user_namespaces(7)).
    private static let unmapped: UInt32 = 65_534

    /// - Parameters:
    ///   - own: The user of this process.
    ///   - allowed: `allow_users`; when empty, the socket's mode lets in `own` only.
    ///   - mapsAllUsers: See ``mapsAllUsers(_:)``.
    package static func admits(_ peer: UInt32, own: UInt32, allowed: [UInt32], mapsAllUsers: Bool) -> Bool {
        if peer == unmapped, !mapsAllUsers { return own == unmapped && allowed.isEmpty }
        return peer == own || allowed.contains(peer)
    }

    /// Whether every user has a number of its own.
    ///
    /// - Parameter map: The content of `/proc/self/uid_map`; nil where there is none.
    package static func mapsAllUsers(_ map: String?) -> Bool {
        guard let map else { return true }
        let counts = map.split(separator: "\n").compactMap { line in
            line.split(separator: " ").last.flatMap { UInt32($0) }
        }
        return counts.contains { $0 >= UInt32.max - 1 }
    }
}
