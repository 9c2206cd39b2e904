import FoundationEssentials

/// A plan as people and scripts read it: everything that was decided, no secret.
package struct PlanSummary: Hashable, Sendable, Codable {
    /// Where clients send requests. What it shows is declared with its keys (``ListenerPlan/keys``).
    package struct Listener: ShownValues {
        package var values: [String: ShownValue]

        package init(values: [String: ShownValue]) { self.values = values }
    }

    /// Another proxy that is handed credentials (``EnginePlan/keys``), with its listener among the values.
    package struct Engine: ShownValues {
        package var values: [String: ShownValue]

        package init(values: [String: ShownValue]) { self.values = values }
    }

    /// A route (``RoutePlan/keys``), with its name among the values.
    package struct Route: ShownValues {
        package var values: [String: ShownValue]

        package init(values: [String: ShownValue]) { self.values = values }
    }

    /// The limits of a client that has any.
    package struct ClientLimits: Hashable, Sendable, Codable {
        package var name: String
        package var concurrent: Int?
        package var perSecond: Int?
    }

    /// A credential, with what is shown of its renewal (``RenewalPolicy/keys``) among the values.
    package struct Credential: ShownValues {
        package var values: [String: ShownValue]

        package init(values: [String: ShownValue]) { self.values = values }
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

/// What a thing of the plan shows, by name: one object in JSON.
package protocol ShownValues: Hashable, Sendable, Codable {
    var values: [String: ShownValue] { get set }

    init(values: [String: ShownValue])
}

extension ShownValues {
    package init(from decoder: any Decoder) throws {
        self.init(values: try decoder.singleValueContainer().decode([String: ShownValue].self))
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(values)
    }
}
