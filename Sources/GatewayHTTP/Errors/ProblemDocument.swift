/// The body of an answer that the gateway gives by itself: `application/problem+json` (RFC 9457).
package enum ProblemDocument {
    package static let mediaType = "application/problem+json"

    /// For clients that would rather read a sentence: the same facts in lines.
    package static func text(_ problem: GatewayProblem, requestID: String) -> String {
        var lines = ["\(problem.kind.title) (\(problem.kind.rawValue))", problem.detail]
        if let command = problem.command { lines.append("Run: \(command)") }
        lines.append("Request: \(requestID)")
        return lines.joined(separator: "\n") + "\n"
    }

    /// - Parameters:
    ///   - status: Of the answer, where it is not that of the problem.
    ///   - route: The route's name, when one was found.
    ///   - credential: The name of the route's credential.
    ///   - strategy: The kind of that credential.
    package static func json(
        _ problem: GatewayProblem,
        status: Int? = nil,
        requestID: String,
        route: String? = nil,
        credential: String? = nil,
        strategy: String? = nil
    ) -> String {
        var members: [(name: String, value: String)] = [
            ("type", JSONString.quoted("urn:authgateway:problem:\(problem.kind.rawValue)")),
            ("title", JSONString.quoted(problem.kind.title)),
            ("status", String(status ?? problem.kind.status)),
            ("detail", JSONString.quoted(problem.detail)),
            ("code", JSONString.quoted(problem.kind.rawValue)),
            ("recovery", JSONString.quoted(problem.kind.recovery.rawValue)),
        ]
        if let command = problem.command { members.append(("command", JSONString.quoted(command))) }
        if let route { members.append(("route", JSONString.quoted(route))) }
        if let credential { members.append(("credential", JSONString.quoted(credential))) }
        if let strategy { members.append(("strategy", JSONString.quoted(strategy))) }
        if let cause = problem.cause { members.append(("cause", cause.json)) }
        if let retryAfter = problem.retryAfter { members.append(("retry_after", String(retryAfter.secondsRoundedUp))) }
        members.append(("request_id", JSONString.quoted(requestID)))
        return "{" + members.map { "\"\($0.name)\":\($0.value)" }.joined(separator: ",") + "}\n"
    }
}

extension GatewayProblem.Cause {
    fileprivate var json: String {
        var members: [String] = []
        if let code { members.append("\"error\":\(JSONString.quoted(code))") }
        if let httpStatus { members.append("\"http_status\":\(httpStatus)") }
        return "{" + members.joined(separator: ",") + "}"
    }
}
