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
    ///   - route: The route's name, when one was found.
    ///   - credential: The name of the route's credential.
    ///   - strategy: The kind of that credential.
    package static func json(
        _ problem: GatewayProblem,
        requestID: String,
        route: String? = nil,
        credential: String? = nil,
        strategy: String? = nil
    ) -> String {
        var members: [(name: String, value: String)] = [
            ("type", quote("urn:authgateway:problem:\(problem.kind.rawValue)")),
            ("title", quote(problem.kind.title)),
            ("status", String(problem.kind.status)),
            ("detail", quote(problem.detail)),
            ("code", quote(problem.kind.rawValue)),
            ("recovery", quote(problem.kind.recovery.rawValue)),
        ]
        if let command = problem.command { members.append(("command", quote(command))) }
        if let route { members.append(("route", quote(route))) }
        if let credential { members.append(("credential", quote(credential))) }
        if let strategy { members.append(("strategy", quote(strategy))) }
        if let cause = problem.cause { members.append(("cause", cause.json)) }
        if let retryAfter = problem.retryAfter { members.append(("retry_after", String(retryAfter.secondsRoundedUp))) }
        members.append(("request_id", quote(requestID)))
        return "{" + members.map { "\"\($0.name)\":\($0.value)" }.joined(separator: ",") + "}\n"
    }

    /// A JSON string (RFC 8259 §7).
    package static func quote(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case "\n": quoted += "\\n"
            case "\r": quoted += "\\r"
            case "\t": quoted += "\\t"
            default:
                if scalar.value < 0x20 || scalar.value == 0x7F {
                    let hex = String(scalar.value, radix: 16)
                    quoted += "\\u" + String(repeating: "0", count: 4 - hex.count) + hex
                } else {
                    quoted.unicodeScalars.append(scalar)
                }
            }
        }
        return quoted + "\""
    }
}

extension GatewayProblem.Cause {
    fileprivate var json: String {
        var members: [String] = []
        if let code { members.append("\"error\":\(ProblemDocument.quote(code))") }
        if let httpStatus { members.append("\"http_status\":\(httpStatus)") }
        return "{" + members.joined(separator: ",") + "}"
    }
}
