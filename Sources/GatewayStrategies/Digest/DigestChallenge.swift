import GatewayHTTP

/// A challenge of the scheme Digest that can be answered (RFC 7616 section 3.3).
///
/// `domain` is not read: a challenge is answered on the route that it came from, and ``SigningSessions`` knows for which paths.
struct DigestChallenge: Hashable, Sendable {
    /// What is mixed into the response beside the password.
    enum Protection: Hashable, Sendable {
        /// `qop=auth`: a count and a nonce of the client.
        case auth
        /// Nothing, since the challenge has no `qop` (RFC 2069). RFC 7616 section 3.3 forbids that, but devices still
        /// send it, even with SHA-256 (github.com/imroc/req/issues/269, github.com/encode/httpx/pull/2600). Browsers
        /// and curl answer.
        case none
    }

    let algorithm: DigestAlgorithm
    /// As the server spells it; nil for a challenge without one, which then gets none back: old servers refuse what
    /// they do not know.
    let algorithmText: String?
    /// The password is mixed with the nonces once, and the result is used for all requests (`-sess`).
    let isSession: Bool
    let protection: Protection
    let realm: String
    let nonce: String
    let opaque: String?
    /// The request was signed with the right password, and only its nonce is too old.
    let isStale: Bool
    /// The server wants a hash in place of the user name.
    let hidesUsername: Bool
    /// The server reads what is not ASCII as UTF-8.
    let isUTF8: Bool

    /// The longest realm, nonce and opaque that are taken, in bytes of UTF-8.
    static let longest = 2048

    /// The best one of those that may be answered; nil where there is none.
    ///
    /// - Parameters:
    ///   - realm: The only realm; nil takes any.
    ///   - algorithms: The ones that may be used.
    static func best(
        of challenges: [AuthChallenge],
        realm: String?,
        algorithms: [DigestAlgorithm]
    ) -> DigestChallenge? {
        var best: DigestChallenge?
        for challenge in challenges {
            guard let next = DigestChallenge(challenge), realm == nil || next.realm == realm,
                algorithms.contains(next.algorithm)
            else { continue }
            // The server lists its preferred challenge first (RFC 7616 section 3.7).
            if best.map({ $0.strength < next.strength }) ?? true { best = next }
        }
        return best
    }

    private var strength: Int { (algorithm == .md5 ? 0 : 2) + (protection == .auth ? 1 : 0) }

    /// nil for another scheme, and for one that cannot be answered: with an unknown algorithm, or with `qop=auth-int`
    /// alone, which would need the whole body before the head.
    init?(_ challenge: AuthChallenge) {
        let parameters = challenge.parameters
        guard challenge.scheme == "digest", let realm = parameters["realm"], let nonce = parameters["nonce"],
            !nonce.isEmpty, Self.isQuotable(realm), Self.isPlain(nonce)
        else { return nil }
        self.realm = realm
        self.nonce = nonce
        opaque = parameters["opaque"]
        guard opaque.map(Self.isPlain) ?? true else { return nil }
        algorithmText = parameters["algorithm"]
        let name = (algorithmText ?? DigestAlgorithm.md5.rawValue).uppercased()
        isSession = name.hasSuffix("-SESS")
        guard let algorithm = DigestAlgorithm(rawValue: isSession ? String(name.dropLast(5)) : name) else { return nil }
        self.algorithm = algorithm
        if let offered = parameters["qop"] {
            let words = offered.split { $0 == "," || $0 == " " || $0 == "\t" }
            guard words.contains(where: { $0.lowercased() == "auth" }) else { return nil }
            protection = .auth
        } else {
            // Without `qop` the server does not learn the client's nonce, which such a session is made with.
            guard !isSession else { return nil }
            protection = .none
        }
        isStale = parameters["stale"]?.lowercased() == "true"
        hidesUsername = parameters["userhash"]?.lowercased() == "true"
        isUTF8 = parameters["charset"]?.lowercased() == "utf-8"
    }

    /// Whether it can stand in a quoted string. A byte that is no UTF-8 was replaced when the field was read, so the
    /// server would compare something else.
    private static func isQuotable(_ text: String) -> Bool {
        text.utf8.count <= longest
            && text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F && $0.value != 0xFFFD }
    }

    /// Whether it is ASCII that can stand in a quoted string.
    static func isPlain(_ text: String) -> Bool {
        text.utf8.count <= longest && text.utf8.allSatisfy { (0x20..<0x7F).contains($0) }
    }
}
