import FoundationEssentials

/// A plan as people and scripts read it: everything that was decided, no secret.
package struct PlanSummary: Hashable, Sendable, Codable {
    package struct Listener: Hashable, Sendable, Codable {
        package var address: String?
        package var unix: String?
        package var allowUsers: [UInt32]?
        package var tls: Bool
        package var clientCertificates: Bool
        /// nil for a listener that does not.
        package var intercepts: Bool?
        /// nil for one with a certificate of its own, or none.
        package var usesLocalAuthority: Bool?
        package var publicUrl: String?
        /// nil for a listener that refuses servers without a route.
        package var connect: Connect?
    }

    /// Another proxy that is handed credentials.
    package struct Engine: Hashable, Sendable, Codable {
        package var engine: String
        package var contract: String
        package var listener: Listener
        /// nil where none is asked for.
        package var certificates: [String]?
        /// nil where the path begins at once.
        package var pathPrefix: String?
        /// nil where no answer is kept.
        package var cache: String?
    }

    package struct Connect: Hashable, Sendable, Codable {
        package var unrouted: String
        package var allow: [String]
        package var ports: [Int]
    }

    /// The limits of a client that has any.
    package struct ClientLimits: Hashable, Sendable, Codable {
        package var name: String
        package var concurrent: Int?
        package var perSecond: Int?
    }

    package struct Credential: Hashable, Sendable, Codable {
        package var name: String
        package var strategy: String
        package var subject: String?
        /// The header field that names the subject, and how many subjects there may be at a time.
        package var subjectField: String?
        package var maximumSubjects: Int?
        /// The credential that it is made from.
        package var parent: String?
        package var renewable: Bool
        /// For renewable credentials only.
        package var renewsByItself: Bool?
        package var renewAhead: String?
        package var renewAtLeast: String?
        package var retryOn: [Int]?
        package var rejectedWhen: RejectedWhen?
        package var onAuthorityFailure: String?
        package var acquireOn: String?
        /// The clients that are handed a token.
        package var vend: [String]?
        /// The credential of that token: this one, or a weaker one.
        package var vendedToken: String?
        package var routes: [String]
    }

    /// The responses that mean the end of a session.
    package struct RejectedWhen: Hashable, Sendable, Codable {
        package var status: [Int]?
        package var location: String?
        package var body: String?
    }

    package struct Allow: Hashable, Sendable, Codable {
        /// Empty means every method.
        package var methods: [String]
        package var path: String
    }

    /// The values are left out: they may be secrets.
    package struct Headers: Hashable, Sendable, Codable {
        package var set: [String]
        package var remove: [String]
        package var forwarded: String?
    }

    /// The timeouts that a route sets itself.
    package struct Timeouts: Hashable, Sendable, Codable {
        package var response: String?
        package var idle: String?
    }

    package struct Route: Hashable, Sendable, Codable {
        package var name: String
        package var upstream: String
        package var path: String
        package var hosts: [String]
        /// Whether the upstream's own host finds the route in absolute form.
        package var absoluteForm: Bool
        /// nil where it is the path of the upstream.
        package var upstreamPath: String?
        /// nil for one that is not.
        package var isDefault: Bool?
        /// nil where the host or the path is enough.
        package var matchesAll: Bool?
        package var credential: String?
        package var asUser: String?
        package var headers: Headers?
        package var cookies: String
        /// nil: for requests that find the route by its path.
        package var rewritesLinks: Bool?
        package var connectionAuth: Bool
        /// nil for a route that sends it.
        package var via: Bool?
        package var allow: [Allow]?
        package var clients: [String]?
        /// nil for a route that hands its credential to no engine.
        package var authz: [String]?
        package var allowOrigins: [String]?
        package var pins: [String]?
        /// nil for HTTP/1.1.
        package var `protocol`: String?
        /// nil where limits say it.
        package var timeouts: Timeouts?
        package var plaintext: Bool
    }

    package var stateDirectory: String
    package var workers: String
    package var proxyStatus: Bool
    package var requestIdHeader: String
    package var listeners: [Listener]
    /// nil where no other proxy asks.
    package var authz: [Engine]?
    package var admin: String
    /// The role of each user, by name; nil where there are none.
    package var adminUsers: [String: String]?
    package var clients: [String]
    package var clientLimits: [ClientLimits]
    package var requireClient: String
    package var allowOrigins: [String]
    package var audit: [String: String]
    package var tokens: [String: String]
    package var limits: [String: String]
    /// Empty where nothing is exported.
    package var telemetry: [String: String]
    /// Empty where nothing is intercepted.
    package var ca: [String: String]
    package var credentials: [Credential]
    package var routes: [Route]

    /// One JSON object with sorted keys.
    package func json() -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        encoder.keyEncodingStrategy = .convertToSnakeCase
        guard let data = try? encoder.encode(self) else { return "{}" }
        return String(decoding: data, as: UTF8.self)
    }
}
