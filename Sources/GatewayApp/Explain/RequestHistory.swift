package import GatewayEvents
import GatewayHTTP
import GatewayProxy

/// What happened to the requests with one ID, the gateway's or a client's, as `explain ID` prints it: merged from requests in
/// memory, rows of the audit log and events, each of which may lack something. Holds no secret.
package struct RequestHistory: Hashable, Sendable, Codable {
    package struct Request: Hashable, Sendable, Codable {
        /// The gateway's.
        package var requestId: String
        var clientRequestId: String?
        /// RFC 3339, when it ended.
        package var at: String
        package var route: String?
        package var client: String?
        package var method: String?
        /// Where a request that failed came from, and what it asked for.
        var peer: String?
        package var host: String?
        package var path: String?
        /// What the client was answered; 0 when nothing was sent, nil where it is not known.
        package var status: Int?
        /// Set when the gateway answered by itself.
        package var problem: String?
        package var reason: String?
        package var explanation: String?
        package var command: String?
        package var credential: String?
        package var generation: Int?
        var wasReplayed = false
        /// The engine that asked about it; nil where the gateway itself forwarded it.
        package var engine: String?
        package var bytesReceived: Int?
        package var bytesSent: Int?
        var times: Times?
        /// How many requests the row stands for that it was counted in.
        var countedWith: Int?
        package var events: [Event] = []
    }

    /// When a request had what it needed, in milliseconds since it began.
    struct Times: Hashable, Sendable, Codable {
        var credential: Int?
        var connection: Int?
        var response: Int?
        var total: Int
    }

    /// A row of the audit log.
    package struct Event: Hashable, Sendable, Codable {
        package var at: String
        package var event: String
        package var credential: String?
        package var generation: Int?
        package var trigger: String?
        package var failed: Bool
        var httpStatus: Int?
        var errorCode: String?
        package var milliseconds: Int?
    }

    package var id: String
    package var requests: [Request]
    /// Where was looked, and what was not.
    var remarks: [String]

    /// Puts together what several places say of the same requests.
    ///
    /// - Parameters:
    ///   - known: What is known of each, the best first: of two with the same id the first counts.
    ///   - events: By the gateway's id of the request that they belong to.
    package init(id: String, known: [Request], events: [String: [Event]], remarks: [String]) {
        self.id = id
        self.remarks = remarks
        var requests: [Request] = []
        for request in known {
            if let index = requests.firstIndex(where: { $0.requestId == request.requestId }) {
                requests[index].complete(from: request)
            } else {
                requests.append(request)
            }
        }
        for id in events.keys.sorted() where !requests.contains(where: { $0.requestId == id }) {
            requests.append(Request(requestId: id, at: events[id]?.last?.at ?? ""))
        }
        for index in requests.indices {
            let own = events[requests[index].requestId] ?? []
            requests[index].events = own.sorted { ($0.at, $0.event) < ($1.at, $1.event) }
        }
        self.requests = requests.sorted { ($0.at, $0.requestId) < ($1.at, $1.requestId) }
    }
}

/// A request, put together from what several places know of it.
extension RequestHistory.Request {
    package init(_ use: RequestUse) {
        self.init(requestId: use.requestID, at: use.at.rfc3339)
        clientRequestId = use.clientRequestID
        route = use.route.isEmpty ? nil : use.route
        client = use.client
        method = use.method
        peer = use.failure?.place.peer
        host = use.failure?.place.host
        path = use.failure?.place.path
        status = use.status
        problem = use.problem?.rawValue
        reason = use.failure?.reason.description
        explanation = use.failure?.explanation
        command = use.failure?.command
        credential = use.credential ?? use.failure?.credential
        generation = use.generation
        wasReplayed = use.wasReplayed
        engine = use.engine
        bytesReceived = use.bytesReceived
        bytesSent = use.bytesSent
        func milliseconds(_ time: Duration?) -> Int? { time.map { Int(clamping: $0.wholeMilliseconds) } }
        times = RequestHistory.Times(
            credential: milliseconds(use.timings.credential),
            connection: milliseconds(use.timings.connection),
            response: milliseconds(use.timings.response),
            total: Int(clamping: use.duration.wholeMilliseconds)
        )
    }

    /// Takes over what is not known yet.
    fileprivate mutating func complete(from other: Self) {
        clientRequestId = clientRequestId ?? other.clientRequestId
        route = route ?? other.route
        client = client ?? other.client
        method = method ?? other.method
        peer = peer ?? other.peer
        host = host ?? other.host
        path = path ?? other.path
        status = status ?? other.status
        problem = problem ?? other.problem
        reason = reason ?? other.reason
        explanation = explanation ?? other.explanation
        command = command ?? other.command
        credential = credential ?? other.credential
        generation = generation ?? other.generation
        engine = engine ?? other.engine
        bytesReceived = bytesReceived ?? other.bytesReceived
        bytesSent = bytesSent ?? other.bytesSent
        times = times ?? other.times
        countedWith = countedWith ?? other.countedWith
    }
}

// MARK: - Text

/// The whole history as text.
extension RequestHistory {
    /// The history as people read it, with line breaks.
    ///
    /// - Parameter width: The width of the terminal; nil for lines of any length.
    package func text(width: Int? = nil) -> String {
        var page = LabelledLines(width: width)
        if requests.isEmpty { page.addLine("No request is known by the id \(ShownText.clean(id, limit: 80)).") }
        for (index, request) in requests.enumerated() {
            if index > 0 { page.addLine("") }
            request.add(to: &page)
        }
        page.addLine("")
        for remark in remarks { page.add("looked at", ShownText.clean(remark)) }
        return page.text
    }
}

/// One request as text.
extension RequestHistory.Request {
    fileprivate func add(to page: inout LabelledLines) {
        page.addLine(verdict)
        page.addLine("")
        page.add("request", [requestId, clientRequestId.map { "the client's id \($0)" }])
        page.add("ended", [at])
        if let countedWith { page.add("counted", ["in one row with \(countedWith.counted("request")) of its kind"]) }
        page.add("client", [client, peer.map { "from \($0)" }])
        page.add("asked for", [path.map { "\(method ?? "") \($0)" }, host.flatMap { $0.isEmpty ? nil : "Host \($0)" }])
        page.add("engine", [engine.map { "\($0) asked about the request" }])
        page.add("route", [route])
        page.add("credential", [credential, generation.map { "generation \($0)" }])
        page.add("reason", [reason == problem ? nil : reason])
        page.add("", [explanation])
        if wasReplayed { page.add("replayed", ["it was sent again, with a newer token or another signature"]) }
        page.add("time", [times?.text])
        page.add(
            "body",
            [bytesReceived.map { "\($0) bytes from the client" }, bytesSent.map { "\($0) bytes to it" }]
        )
        for event in events { page.add("event", [event.text]) }
        page.addCommand(command.map { ShownText.clean($0) }, under: "Run:")
        page.addCommand(
            ErrorEntry.command(explaining: reason) ?? ErrorEntry.command(explaining: problem),
            under: LabelledLines.codeTitle
        )
    }

    /// One line.
    package var verdict: String {
        let name = [method, route.map { "on route \($0)" }].compactMap(\.self).joined(separator: " ")
        let what = ShownText.clean(name.isEmpty ? "A request" : name)
        let time = times.map { " after \($0.total) ms" } ?? ""
        guard let status else { return "\(what): the response is not known." }
        if let problem {
            let answer = status > 0 ? "answered \(status)" : "refused it without a response:"
            return "\(what): the gateway \(answer) \(ShownText.clean(problem))\(time)."
        }
        guard status > 0 else { return "\(what): no response was sent\(time)." }
        guard engine == nil else { return "\(what): the engine was handed the credential\(time)." }
        return "\(what): the upstream answered \(status)\(time)."
    }
}

extension RequestHistory.Times {
    /// Where the time went: `157 ms: credential 2 ms, connection 31 ms, response head 120 ms, content 4 ms`
    var text: String {
        // It was refused before it needed anything.
        if total == 0, credential == nil { return "0 ms" }
        var parts: [String] = []
        var last = 0
        // Numbers in rows that somebody has changed may be negative.
        let end = max(0, total)
        for (name, time) in [("credential", credential), ("connection", connection), ("response head", response)] {
            guard let time else {
                parts.append("no \(name) after \(max(0, end - last)) ms")
                return "\(total) ms: " + parts.joined(separator: ", ")
            }
            parts.append("\(name) \(max(0, max(0, time) - last)) ms")
            last = max(0, time)
        }
        parts.append("content \(max(0, end - last)) ms")
        return "\(total) ms: " + parts.joined(separator: ", ")
    }
}

extension RequestHistory.Event {
    fileprivate var text: String {
        let facts = [
            credential, generation.map { "generation \($0)" }, trigger, failed ? "failed" : nil,
            httpStatus.map { "status \($0)" }, errorCode, milliseconds.map { "\($0) ms" },
        ]
        return "\(at) \(event): " + facts.compactMap(\.self).joined(separator: ", ")
    }
}

extension LabelledLines {
    /// Nothing where no part is known.
    fileprivate mutating func add(_ label: String, _ parts: [String?]) {
        let known = parts.compactMap(\.self).filter { !$0.isEmpty }.map { ShownText.clean($0, limit: 600) }
        if !known.isEmpty { add(label, known.joined(separator: ", ")) }
    }
}
