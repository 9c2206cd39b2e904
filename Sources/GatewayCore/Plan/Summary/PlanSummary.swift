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

    /// What a route shows is declared with its keys (``RoutePlan/keys``). One object in JSON, with the name among the values.
    package struct Route: Hashable, Sendable {
        package var name: String
        package var values: [String: ShownValue]
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

extension PlanSummary.Route: Codable {
    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        values = try container.decode([String: ShownValue].self)
        guard case .text(let name)? = values.removeValue(forKey: "name") else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "a route has no name")
        }
        self.name = name
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(values.merging(["name": .text(name)]) { $1 })
    }
}
