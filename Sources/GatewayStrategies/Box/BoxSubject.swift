import GatewayCore

/// Whom a Box token speaks for.
enum BoxSubject: Hashable {
    case enterprise(String)
    case user(String)

    /// Reads `subject: {enterprise: "12345"}` or `subject: {user: "11446498"}`.
    init?(in fields: ConfigFields) {
        guard fields.has("subject") else {
            fields.error("missing key \"subject\": {enterprise: \"…\"} or {user: \"…\"}")
            return nil
        }
        guard let subject = fields.fields("subject") else { return nil }
        defer { subject.refuseUnknownKeys() }
        subject.explain(SharedMeanings.subject)
        switch (subject.has("enterprise"), subject.has("user")) {
        case (true, false):
            guard let id = subject.string("enterprise") else { return nil }
            self = .enterprise(id)
        case (false, true):
            guard let id = subject.string("user") else { return nil }
            self = .user(id)
        case (false, false) where !subject.unknownKeys.isEmpty: return nil
        default:
            subject.error("a subject is exactly one of enterprise and user")
            return nil
        }
    }

    var type: String {
        switch self {
        case .enterprise: "enterprise"
        case .user: "user"
        }
    }

    var id: String {
        switch self {
        case .enterprise(let id), .user(let id): id
        }
    }
}
