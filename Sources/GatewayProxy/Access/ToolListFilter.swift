import GatewayHTTP

/// Leaves the tools out of a response that a rule does not name (``ToolRule``). Everything else stays as it came.
///
/// A body in JSON is read as a whole, a stream event by event. What cannot be read within ``maximumBytes`` is not shown.
///
/// A class, because almost no request has one, and a reference is small.
final class ToolListFilter {
    /// The requests of `tools/list` that a response may answer.
    struct Requests: Hashable {
        /// As JSON; empty if the body that has them was not read.
        var ids: [String] = []
        var isBatch = false
        /// Only a stream may have answers: one that a client resumes, or that of MCP before 2025-03-26, has those to other requests.
        var onlyInStream = false
    }

    /// How a response is read.
    enum Reading: Hashable {
        /// It cannot have an answer.
        case nothing
        case json
        case events
        /// It may have one that cannot be read.
        case refused(String)
    }

    /// At most this much of a response is held back. A model would need 250,000 tokens for such a list.
    static let maximumBytes = 1 << 20
    static let tooLong = "is longer than 1 MiB"

    static func unreadable(_ reason: String) -> String {
        "The answer to tools/list \(reason), so the gateway cannot leave out the tools that are not allowed."
    }

    private let rule: ToolRule
    private let requests: Requests
    private let isStream: Bool
    /// The body, or the event that is not whole yet.
    private var held: [UInt8] = []
    /// Where the last line of the event begins.
    private var lineStart = 0
    /// Where the last byte went if it was a CR: an LF after it belongs to the same line ending.
    private var returned: Place?
    private var isFirstEvent = true
    /// All of the response has come, or no more of it is shown.
    private(set) var isOver = false
    /// What of ``heldBytes`` is charged to the client.
    private var charged = 0

    private enum Place {
        case held
        case sent
    }

    init(_ rule: ToolRule, _ requests: Requests, isStream: Bool) {
        (self.rule, self.requests, self.isStream) = (rule, requests, isStream)
    }

    var heldBytes: Int { held.count }

    /// Charges the client for what is held back.
    ///
    /// - Parameter change: Gets the difference in bytes; false if the client may not hold so much.
    func charge(_ change: (Int) -> Bool) -> Bool {
        let growth = heldBytes - charged
        guard growth == 0 || change(growth) else { return false }
        charged += growth
        return true
    }

    func release(_ change: (Int) -> Void) {
        guard charged > 0 else { return }
        change(-charged)
        charged = 0
    }

    // MARK: Head

    /// MCP of 2026-07-28, basic/transports/streamable-http, "Sending Messages": an answer is JSON or a stream of events.
    static func reading(
        of head: borrowing ResponseHead,
        _ bytes: borrowing Span<UInt8>,
        to requests: Requests
    ) -> Reading {
        if case .none = head.framing { return .nothing }
        var types: [String] = []
        var isCoded = false
        for field in head.fields {
            if bytes.equalsLowercased(field.name, "content-type") {
                types.append(bytes.string(field.value).lowercased())
            } else if bytes.equalsLowercased(field.name, "content-encoding") {
                isCoded = isCoded || bytes.string(field.value).lowercased() != "identity"
            }
        }
        // Clients look for the name anywhere in the value.
        let isStream = types.contains { $0.contains("text/event-stream") }
        let isJSON = types.contains { $0.contains("application/json") }
        guard isStream || isJSON && !requests.onlyInStream else {
            // A 202 says that the answer comes elsewhere, and an error is none.
            let hasAnswer = (200..<300).contains(head.status) && head.status != 202 && !requests.onlyInStream
            return hasAnswer ? .refused("is neither application/json nor text/event-stream") : .nothing
        }
        guard !isCoded else { return .refused("has a Content-Encoding") }
        guard types.count == 1, isStream != isJSON else { return .refused("has more than one Content-Type") }
        return isStream ? .events : .json
    }

    // MARK: Body

    /// Takes a part of the response.
    ///
    /// - Parameter out: Gets what can be sent now.
    func take(_ part: borrowing Span<UInt8>, into out: inout [UInt8]) throws(RPCFault) {
        guard !isOver else { return }
        if isStream {
            try takeEvents(part, into: &out)
        } else {
            for index in part.indices { held.append(part[index]) }
        }
    }

    /// Whether more is held back than may be.
    var isTooLong: Bool { held.count > Self.maximumBytes }

    /// All of the response has come.
    func end(into out: inout [UInt8]) throws(RPCFault) {
        guard !isOver else { return }
        isOver = true
        defer { held = [] }
        // An event that was cut off is ignored by most clients.
        out += try isStream ? event(held) : json(held) ?? held
    }

    /// No more of the response is shown.
    ///
    /// - Parameter detail: What the operator is told, too.
    /// - Returns: What stands in its place.
    func refuse(_ detail: String) -> [UInt8] {
        (isOver, held) = (true, [])
        let body = Self.refusal(detail, to: requests, status: 200).body
        return Array((isStream ? "data: \(body)\n" : body).utf8)
    }

    /// - Parameter status: If the ids are not known.
    static func refusal(_ detail: String, to requests: Requests, status: Int) -> RPCRefusal {
        let ids: [String?] = requests.ids.isEmpty ? [nil] : requests.ids
        let failures = ids.map { RPCRefusal.Failure(id: $0, code: RPCRefusal.internalError, message: detail) }
        let status = requests.ids.isEmpty ? status : 200
        return requests.isBatch ? RPCRefusal(failures, status: status) : RPCRefusal(failures[0], status: status)
    }

    /// - Returns: The text without tools that the rule does not name; nil if it stays as it is.
    private func json(_ text: [UInt8]) throws(RPCFault) -> [UInt8]? {
        // No reader finds a message in a text without an object, such as the path in the first event of MCP before 2025-03-26.
        guard text.contains(UInt8(ascii: "{")) else { return nil }
        let dropped = try RPCToolList(text.span) { rule.allows(tool: $0) }.dropped
        guard !dropped.isEmpty else { return nil }
        var kept: [UInt8] = []
        var start = 0
        for range in dropped {
            kept += text[start..<range.lowerBound]
            start = range.upperBound
        }
        return kept + text[start...]
    }

    // MARK: Events (HTML, "Server-sent events", "Interpreting an event stream")

    private func takeEvents(_ part: borrowing Span<UInt8>, into out: inout [UInt8]) throws(RPCFault) {
        // Local, because each access to a property of a class is checked.
        var (held, lineStart, returned) = (self.held, self.lineStart, self.returned)
        self.held = []
        defer { (self.held, self.lineStart, self.returned) = (held, lineStart, returned) }
        for index in part.indices {
            let byte = part[index]
            if byte == Self.lineFeed, let place = returned.take() {
                if place == .held { held.append(byte) } else { out.append(byte) }
                lineStart = held.count
                continue
            }
            returned = nil
            held.append(byte)
            guard byte == Self.lineFeed || byte == Self.carriageReturn else { continue }
            let isBlank = held.count == lineStart + 1
            // A comment keeps the connection open, and belongs to no event.
            let isComment = held[lineStart] == Self.colon
            if isBlank {
                out += try event(held)
                held.removeAll(keepingCapacity: held.count < 65_536)
                isFirstEvent = false
            } else if isComment {
                out += held[lineStart...]
                held.removeSubrange(lineStart...)
            }
            if byte == Self.carriageReturn { returned = isBlank || isComment ? .sent : .held }
            lineStart = held.count
        }
    }

    private func event(_ bytes: [UInt8]) throws(RPCFault) -> [UInt8] {
        var data: [UInt8] = []
        var hasData = false
        var others: [UInt8] = []
        var start = 0
        while start < bytes.count {
            var end = start
            while end < bytes.count, bytes[end] != Self.lineFeed, bytes[end] != Self.carriageReturn { end += 1 }
            let isPair = end + 1 < bytes.count && bytes[end] == Self.carriageReturn && bytes[end + 1] == Self.lineFeed
            let next = min(end + (isPair ? 2 : 1), bytes.count)
            var line = bytes[start..<end]
            if start == 0, isFirstEvent, line.starts(with: Self.byteOrderMark) { line = line.dropFirst(3) }
            if let value = Self.data(in: line) {
                if hasData { data.append(Self.lineFeed) }
                data += value
                hasData = true
            } else {
                others += bytes[start..<next]
            }
            start = next
        }
        guard let shown = try json(data) else { return bytes }
        var event = Array("data: ".utf8)
        for byte in shown {
            event.append(byte)
            if byte == Self.lineFeed { event += "data: ".utf8 }
        }
        event.append(Self.lineFeed)
        // The empty line at the end is among them.
        return event + others
    }

    /// nil for a line of another field.
    private static func data(in line: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        guard line.starts(with: "data".utf8) else { return nil }
        let rest = line.dropFirst(4)
        guard let first = rest.first else { return rest }
        guard first == colon else { return nil }
        let value = rest.dropFirst()
        return value.first == UInt8(ascii: " ") ? value.dropFirst() : value
    }

    private static let lineFeed = UInt8(ascii: "\n")
    private static let carriageReturn = UInt8(ascii: "\r")
    private static let colon = UInt8(ascii: ":")
    private static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]
}
