import GatewayHTTP

/// One row of the audit log, or one request, as the page and `/api/events` show it: both in one list, with one set of filters.
/// It holds no secret. Text is escaped when it is shown.
///
/// The store of events, the page and the live view extend it in their own files, each with what only it needs.
package struct AuditEntry: Hashable, Sendable, Codable {
    /// The id of the row; nil for a request, which has none.
    package var id: Int64?
    /// RFC 3339.
    package var at: String
    package var event: String
    package var credential: String?
    package var generation: Int?
    package var trigger: String?
    package var route: String?
    package var client: String?
    package var requestID: String?
    package var isFailed: Bool
    package var httpStatus: Int?
    package var errorCode: String?
    package var durationMilliseconds: Int?
    /// When the token of the event expires, RFC 3339. For timelines only: it is in no answer.
    package var expiresAt: String?
    package var detail: [String: String]

    package init(
        id: Int64?,
        at: String,
        event: String,
        credential: String? = nil,
        generation: Int? = nil,
        trigger: String? = nil,
        route: String? = nil,
        client: String? = nil,
        requestID: String? = nil,
        isFailed: Bool = false,
        httpStatus: Int? = nil,
        errorCode: String? = nil,
        durationMilliseconds: Int? = nil,
        expiresAt: String? = nil,
        detail: [String: String] = [:]
    ) {
        self.id = id
        self.at = at
        self.event = event
        self.credential = credential
        self.generation = generation
        self.trigger = trigger
        self.route = route
        self.client = client
        self.requestID = requestID
        self.isFailed = isFailed
        self.httpStatus = httpStatus
        self.errorCode = errorCode
        self.durationMilliseconds = durationMilliseconds
        self.expiresAt = expiresAt
        self.detail = detail
    }

    /// As `audit query --json` names them, once an encoder has made them snake case.
    private enum CodingKeys: String, CodingKey {
        case id
        case at
        case event
        case credential
        case generation
        case trigger
        case route
        case client
        case requestID = "requestId"
        case isFailed
        case httpStatus
        case errorCode
        case durationMilliseconds = "durationMs"
        case detail
    }
}

extension AuditEntry {
    /// A request that is over.
    package init(_ request: RequestUse) {
        let isFailed =
            request.failure != nil || RouteTraffic.Counts.isError(status: request.status, problem: request.problem)
        self.init(
            id: nil,
            at: request.at.rfc3339,
            event: "request",
            credential: request.credential ?? request.failure?.credential,
            generation: request.generation,
            route: request.route.isEmpty ? nil : request.route,
            client: request.client,
            requestID: request.requestID,
            isFailed: isFailed,
            httpStatus: request.status == 0 ? nil : request.status,
            errorCode: request.failure?.reason.description ?? request.problem?.rawValue,
            durationMilliseconds: Int(clamping: request.duration.wholeMilliseconds)
        )
        detail["method"] = request.method
        detail["path"] = request.failure?.place.path
        detail["client_request_id"] = request.clientRequestID
        if request.wasReplayed { detail["replayed"] = "true" }
        detail["engine"] = request.engine
    }

    /// What else there is to say about the event, in a few words. The rest is explained where it is asked for.
    package var note: String {
        var words: [String] = []
        if let code = errorCode { words.append(httpStatus.map { "\($0) \(code)" } ?? code) }
        if errorCode == nil, isFailed || id == nil, let status = httpStatus { words.append(String(status)) }
        if let generation, generation > 0 { words.append("generation \(generation)") }
        if let duration = durationMilliseconds { words.append("in \(duration) ms") }
        let known: Set = [
            "reason", "method", "path", "explanation", "command", "peer", "host", "problem", "credential_ms",
            "connection_ms", "response_ms",
        ]
        if let reason = detail["reason"], reason != errorCode { words.append(reason) }
        let target = [detail["method"], detail["path"]].compactMap(\.self)
        if !target.isEmpty { words.append(target.joined(separator: " ")) }
        if credential != nil, let route { words.append("route \(route)") }
        words += detail.filter { !known.contains($0.key) }.sorted { $0.key < $1.key }
            .compactMap { inWords($0.key, $0.value) }
        return words.joined(separator: " · ")
    }

    private func requestIDs(_ ids: [Substring]) -> String {
        let shown = ids.count > 4 ? ids.prefix(3) : ids[...]
        let rest = ids.count - shown.count
        return "IDs \(shown.joined(separator: " "))\(rest > 0 ? " and \(rest) more" : "")"
    }

    /// A detail in words; nil for one that says nothing new.
    private func inWords(_ name: String, _ value: String) -> String? {
        switch name {
        case "authority_code", "cause": value == errorCode ? nil : value
        case "authority_description": "“\(value)”"
        case "authority_uri": value
        case "authority_format": value == "html" ? "an HTML page" : nil
        case "clock_skew_seconds":
            Int(value).map { "clock \($0.magnitude) s \($0 > 0 ? "behind" : "ahead of") the authorization server" }
        case "client_request_id": "the client's ID \(value)"
        case "count": "\(value) requests"
        // One of them is the row's own.
        case "requests": requestIDs(value.split(separator: " "))
        default:
            if value == "true" { name.replacing("_", with: " ") } else { "\(name.replacing("_", with: " ")) \(value)" }
        }
    }
}
