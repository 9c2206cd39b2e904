import GatewayConfiguration
package import GatewayHTTP
package import GatewayTokens

/// Who may use the gateway.
package struct AccessPlan: Hashable, Sendable {
    package enum RequireClient: String, CaseIterable, Sendable {
        case auto
        case `true`
        case `false`
    }

    package struct Client: Hashable, Sendable {
        package enum Token: Hashable, Sendable {
            case token(Secret)
            /// 32 bytes.
            case tokenSHA256([UInt8])
        }

        /// A token, and the one that it replaces.
        package static let maximumTokens = 2

        package var name: String
        /// Each proves the client. In the order of the configuration.
        package var tokens: [Token]
        /// A certificate with this name proves the client, too.
        package var certificate: CertificateName?
        /// A signed token proves the client, too.
        package var jwt: ClientJWTPlan?
        package var limits: ClientLimitsPlan

        package init(
            name: String,
            tokens: [Token],
            certificate: CertificateName? = nil,
            jwt: ClientJWTPlan? = nil,
            limits: ClientLimitsPlan = ClientLimitsPlan()
        ) {
            self.name = name
            self.tokens = tokens
            self.certificate = certificate
            self.jwt = jwt
            self.limits = limits
        }

        /// A client with one token.
        package init(name: String, proof: Token, limits: ClientLimitsPlan = ClientLimitsPlan()) {
            self.init(name: name, tokens: [proof], limits: limits)
        }
    }

    package var clients: [Client]
    /// Browser origins that may call, as `Origin` spells them.
    package var allowedOrigins: [String]
    package var requireClient: RequireClient

    package init(clients: [Client], allowedOrigins: [String], requireClient: RequireClient) {
        self.clients = clients
        self.allowedOrigins = allowedOrigins
        self.requireClient = requireClient
    }

    /// Browser origins that may call the route.
    package func allowedOrigins(on route: RoutePlan) -> [String] { route.allowedOrigins ?? allowedOrigins }

    /// Whether a request needs a client token where its route names no clients.
    package var asksForClients: Bool {
        switch requireClient {
        case .true: true
        case .false: false
        case .auto: !clients.isEmpty
        }
    }
}

/// How much one client may ask of the gateway.
package struct ClientLimitsPlan: Hashable, Sendable {
    /// Requests at the same time; nil allows any number.
    package var concurrent: Int?
    /// Requests in a second; nil allows any number.
    package var perSecond: Int?

    package var isEmpty: Bool { concurrent == nil && perSecond == nil }
}

extension ClientLimitsPlan: CanonicalValue {
    package func add(to bytes: inout CanonicalBytes) { AccessDecoder.limitKeys.add(self, to: &bytes) }
}

extension AccessPlan.Client.Token: CanonicalValue {
    package func add(to bytes: inout CanonicalBytes) {
        switch self {
        case .token(let token): bytes.add(token)
        case .tokenSHA256(let digest): bytes.add(digest)
        }
    }
}

/// What the token of a client must not be: short, or a word that everybody tries.
enum ClientTokenRule {
    static let minimumBytes = 16

    /// - Returns: nil when the token is good enough.
    static func finding(
        _ token: Secret,
        isReachable: Bool
    ) -> (severity: ConfigDiagnostic.Severity, message: String)? {
        guard !token.withValue(WellKnownTokens.holds(word:)) else { return (.error, WellKnownTokens.message) }
        return finding(bytes: token.byteCount, isReachable: isReachable)
    }

    /// - Parameter isReachable: A listener can be reached from other machines, where anybody can try tokens.
    /// - Returns: nil when the token is long enough.
    static func finding(
        bytes: Int,
        isReachable: Bool
    ) -> (severity: ConfigDiagnostic.Severity, message: String)? {
        guard bytes < minimumBytes else { return nil }
        let place = isReachable ? ", and a listener is reachable from other machines" : ""
        let message =
            "the token has fewer than \(minimumBytes) bytes, so it could be guessed\(place); make one with "
            + "`openssl rand -hex 32`"
        return (isReachable ? .error : .warning, message)
    }
}

/// One token of a client, as an operator sees it.
package struct ClientTokenStatus: Hashable, Sendable, Codable {
    package var client: String
    /// Its place in the configuration, from 1.
    package var number: Int
    /// RFC 3339; nil where it was not used since the gateway started.
    package var lastUsedAt: String?
}

/// A JSON web token that proves a client (`access.clients.*.jwt`).
package struct ClientJWTPlan: Hashable, Sendable, CanonicalValue {
    package enum Keys: Hashable, Sendable, CanonicalValue {
        /// The keys of a file, which was read with the configuration.
        case set(JSONWebKeySet)
        /// Fetched, and fetched again while the gateway runs.
        case url(AuthorityURL)

        package func add(to bytes: inout CanonicalBytes) {
            switch self {
            case .set(let set):
                bytes.add("set")
                bytes.add(set.keys) { bytes, key in key.add(to: &bytes) }
            case .url(let url):
                bytes.add("url")
                bytes.add(url.text)
            }
        }
    }

    /// How far the clocks of an issuer and the gateway may differ.
    static let leeway = Duration.seconds(60)

    package var issuer: String
    var audience: String
    package var keys: Keys
    /// Exactly this one; with `/*` at its end all below it (``CertificateName/isBelow(_:_:)``). nil: any.
    package var subject: String?
    /// The required values, by the name of the claim. A claim that is a list has to contain the text.
    var claims: [String: String] = [:]

    /// nil where the keys are in a file.
    package var url: AuthorityURL? { if case .url(let url) = keys { url } else { nil } }

    /// Whether a token with these claims is meant for the client, whenever it is valid.
    package func isMeant(by claims: JSONValue) -> Bool {
        claims["iss"]?.string.map { Self.isSame($0, issuer) } ?? false && Self.has(audience, claims["aud"])
            && (subject.map { Self.matches(claims["sub"]?.string, $0) } ?? true)
            && self.claims.allSatisfy { Self.has($1, claims[$0]) }
    }

    /// When a token with these claims ends, with the leeway; nil when it is not valid now (RFC 7519 section 4.1). One that has no end is
    /// not valid.
    package static func end(of claims: JSONValue, at now: UnixTime) -> UnixTime? {
        guard let expires = UnixTime(numericDate: claims["exp"]) else { return nil }
        let end = expires + leeway
        guard now < end else { return nil }
        for name in ["nbf", "iat"] {
            guard let value = claims[name] else { continue }
            guard let start = UnixTime(numericDate: value), start <= now + leeway else { return nil }
        }
        return end
    }

    package func add(to bytes: inout CanonicalBytes) { AccessDecoder.jwtKeys.add(self, to: &bytes) }

    private static func has(_ text: String, _ claim: JSONValue?) -> Bool {
        switch claim {
        case .string(let value)?: isSame(value, text)
        case .array(let values)?: values.contains { $0.string.map { isSame($0, text) } ?? false }
        default: false
        }
    }

    private static func matches(_ subject: String?, _ wanted: String) -> Bool {
        guard let subject else { return false }
        guard wanted.hasSuffix("/*") else { return isSame(subject, wanted) }
        return CertificateName.isBelow(String(wanted.dropLast()), subject)
    }

    /// Compares bytes: strings of Swift are equal if they look the same.
    private static func isSame(_ one: String, _ other: String) -> Bool { one.utf8.elementsEqual(other.utf8) }
}

/// The name in a certificate that proves a client (`access.clients.*.certificate`).
package enum CertificateName: Hashable, Sendable {
    /// This host name or URI.
    case exactly(PeerIdentity.Name)
    /// A URI that begins with this text, which ends with a slash, and has more behind it.
    case uriBelow(String)

    /// Reads a host name, a URI, or `URI/*` for all below it.
    package init?(_ text: String) {
        let prefix = text.hasSuffix("/*") ? String(text.dropLast()) : nil
        let plain = prefix ?? text
        guard !plain.contains("*") else { return nil }
        guard let separator = plain.firstRange(of: "://") else {
            guard prefix == nil, let name = PeerIdentity.Name(dns: plain.utf8) else { return nil }
            self = .exactly(name)
            return
        }
        let rest = plain[separator.upperBound...]
        guard let name = PeerIdentity.Name(uri: plain.utf8), separator.lowerBound > plain.startIndex, !rest.isEmpty,
            !rest.hasPrefix("/")
        else { return nil }
        self = prefix.map { .uriBelow($0) } ?? .exactly(name)
    }

    /// Whether a certificate with this name proves the client.
    package func matches(_ name: PeerIdentity.Name) -> Bool {
        switch (self, name) {
        case (.exactly(let own), _): own == name
        case (.uriBelow(let prefix), .uri(let uri)): Self.isBelow(prefix, uri)
        case (.uriBelow, .dns): false
        }
    }

    /// Whether a name begins with `prefix`, which ends with a slash, and stays below it: no segment is `.` or `..`, whether as it stands,
    /// percent-decoded once or twice, or without its path parameters.
    static func isBelow(_ prefix: String, _ name: String) -> Bool {
        guard name.utf8.count > prefix.utf8.count, name.utf8.starts(with: prefix.utf8) else { return false }
        var reading = Array(name.utf8.dropFirst(prefix.utf8.count))
        for _ in 0...2 {
            let segments = reading.split { $0 == 0x2F || $0 == 0x5C }.map { $0.prefix { !";?#".utf8.contains($0) } }
            guard !segments.contains(where: { $0.elementsEqual([0x2E]) || $0.elementsEqual([0x2E, 0x2E]) }) else {
                return false
            }
            let decoded = PercentEncoding.decodeLeniently(reading.span, reading.indices)
            reading = decoded
        }
        return true
    }

    /// As the configuration has it.
    package var description: String {
        switch self {
        case .exactly(.dns(let name)): "dns: \(name)"
        case .exactly(.uri(let uri)): "uri: \(uri)"
        case .uriBelow(let prefix): "uri: \(prefix)*"
        }
    }

    /// Where several match one name, the client with the highest number has sent the request.
    var precedence: Int {
        switch self {
        case .exactly: Int.max
        case .uriBelow(let prefix): prefix.utf8.count
        }
    }
}
