package import GatewayHTTP

/// Which requests to a route an operator has to approve (`approve` of a rule of `allow`).
enum ApprovalScope: Int, Comparable, Sendable {
    case nothing
    /// Requests whose body has a call that the rule names.
    case calls
    case everything

    static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

/// A request that waits until an operator has approved it.
package struct HeldRequest: Hashable, Sendable {
    /// What is approved. Nothing else is ever sent with the approval.
    package struct Subject: Hashable, Sendable {
        package var client: String?
        package var route: String
        package var method: String
        /// The URL at the upstream, without what the gateway adds.
        package var url: String
        /// SHA-256 of the body.
        package var digest: [UInt8]

        package init(client: String?, route: String, method: String, url: String, digest: [UInt8]) {
            self.client = client
            self.route = route
            self.method = method
            self.url = url
            self.digest = digest
        }
    }

    /// The ID of the request, which is in its response, too.
    package let id: String
    package let subject: Subject
    /// The path as the audit log has it, without identifiers.
    package let place: String
    /// What is called: tools, and other methods of MCP.
    package let calls: [String]
    /// Header fields that say what the request does, and how a server reads the body, such as `content-type: application/json`.
    package let fields: [String]
    /// The beginning of the body, for a person. Only its line breaks may control a terminal.
    package let text: String
    /// How many bytes of the body ``text`` stands for.
    package let shownBytes: Int
    package let bodyBytes: Int
    package let heldAt: MonotonicTime

    /// The most of a body that is shown, in bytes.
    package static let maximumShown = 16_384

    package init(
        id: String,
        subject: Subject,
        place: String = "",
        calls: [String] = [],
        fields: [String] = [],
        body: borrowing Span<UInt8>,
        heldAt: MonotonicTime
    ) {
        self.id = id
        self.subject = subject
        self.place = place
        self.calls = calls
        self.fields = fields
        bodyBytes = body.count
        shownBytes = min(body.count, Self.maximumShown)
        text = Self.shown(String(decoding: body.array(0..<shownBytes), as: UTF8.self))
        self.heldAt = heldAt
    }

    /// What it holds in memory, about.
    var bytes: Int {
        fields.reduce(bodyBytes + text.utf8.count + subject.url.utf8.count + 1024) { $0 + $1.utf8.count }
    }

    /// How long a request waits.
    package static let patience: Duration = .seconds(180)

    package var deadline: MonotonicTime { heldAt + Self.patience }

    /// The ``fields`` of a head.
    static func fields(of head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> [String] {
        var shown: [String] = []
        for field in head.section.fields {
            let name = String(decoding: bytes.array(field.name), as: UTF8.self).lowercased()
            guard isShown(name) else { continue }
            let value = String(decoding: bytes.array(field.value), as: UTF8.self).singleLine(limit: longestField)
            shown.append("\(name): \(value)")
        }
        return shown
    }

    /// S3 has names of objects of 1,024 bytes, which may be escaped.
    private static let longestField = 4096
    private static let shownNames: Set = [
        "content-encoding", "content-type", "soapaction", "x-goog-copy-source", "x-ms-copy-source",
    ]

    /// AWS has operations (`x-amz-target`), sources of copies and grants in fields of its own. Their secrets are not shown.
    private static func isShown(_ name: String) -> Bool {
        // Some servers read `_` as `-`.
        let name = name.replacing("_", with: "-")
        return shownNames.contains(name)
            || name.hasPrefix("x-amz-") && !["date", "key", "sha256", "token"].contains { name.contains($0) }
    }

    private static func shown(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            if scalar.isHarmless || scalar == "\n" {
                result.unicodeScalars.append(scalar)
            } else {
                result += "\\u{\(String(scalar.value, radix: 16))}"
            }
        }
        return result
    }

    /// What the audit log is told.
    package enum Event: Hashable, Sendable {
        case held
        /// It is sent, as this operator has approved it.
        case released(approvedBy: String)
        /// No operator has decided in time.
        case expired
        /// It ended before it was sent.
        ///
        /// - Parameter reason: The code of a problem, or that the client has left.
        case dropped(reason: String)
    }
}

/// The requests that wait for an operator's approval: which are taken, what operators decide, and that each approval counts once.
///
///     hold ──▶ waiting ──approve──▶ approved ──release──▶ (sent)
///                 │                     └────leave──▶ (over)
///                 ├─────deny──▶ denied ──────leave──▶ (over)
///                 └────────leave, or the deadline───▶ (over)
struct HeldRequests: Sendable {
    struct Bounds: Hashable, Sendable {
        var requests = 64
        var requestsPerClient = 8
        var bytes = 64 << 20
        /// More than the longest body that can be collected.
        var bytesPerClient = 24 << 20
        /// Each that begins to wait is a row of the audit log, however soon its client leaves.
        var perMinute = 60
    }

    /// What a request that waits is told.
    enum Verdict: Hashable, Sendable {
        case approved
        case denied
        /// The gateway stops.
        case stopped
    }

    enum Refusal: Hashable, Sendable {
        /// The client's limit of requests or bytes is reached.
        case client
        /// The client's limit per minute is reached.
        case pace
        /// The limit for all clients is reached.
        case all
        case stopping
    }

    private enum State: Hashable, Sendable {
        case waiting
        case approved(by: String)
        case denied
    }

    private struct Entry: Sendable {
        let request: HeldRequest
        var state = State.waiting
    }

    /// How many requests of a client have begun to wait in the current minute of that client.
    private struct Pace: Hashable, Sendable {
        let start: MonotonicTime
        var count = 0

        func isOver(at now: MonotonicTime) -> Bool { now - start >= .seconds(60) }
    }

    private let bounds: Bounds
    /// Oldest first.
    private var entries: [Entry] = []
    /// Those of minutes that are over are removed.
    private var paces: [String?: Pace] = [:]
    private var isClosed = false

    init(bounds: Bounds = Bounds()) { self.bounds = bounds }

    /// - Returns: Why it is not taken; nil if it waits now.
    mutating func hold(_ request: HeldRequest) -> Refusal? {
        guard !isClosed else { return .stopping }
        assert(!entries.contains { $0.request.id == request.id }, "A request waits twice.")
        let own = entries.filter { $0.request.subject.client == request.subject.client }
        guard own.count < bounds.requestsPerClient, Self.bytes(of: own) + request.bytes <= bounds.bytesPerClient else {
            return .client
        }
        guard entries.count < bounds.requests, Self.bytes(of: entries) + request.bytes <= bounds.bytes else {
            return .all
        }
        guard countStart(of: request) else { return .pace }
        entries.append(Entry(request: request))
        return nil
    }

    /// - Returns: false if the client has begun too many within a minute.
    private mutating func countStart(of request: HeldRequest) -> Bool {
        let (client, now) = (request.subject.client, request.heldAt)
        paces = paces.filter { !$0.value.isOver(at: now) }
        var pace = paces[client] ?? Pace(start: now)
        guard pace.count < bounds.perMinute else { return false }
        pace.count += 1
        paces[client] = pace
        return true
    }

    private static func bytes(of entries: [Entry]) -> Int { entries.reduce(0) { $0 + $1.request.bytes } }

    /// The requests that still wait for a decision, oldest first.
    func waiting(at now: MonotonicTime) -> [HeldRequest] {
        entries.filter { $0.state == .waiting && now < $0.request.deadline }.map(\.request)
    }

    /// An operator approves a request, or denies it.
    ///
    /// - Parameter approver: Who approves it; nil denies it.
    /// - Returns: nil if no such request waits.
    mutating func decide(_ id: String, approver: String?, at now: MonotonicTime) -> HeldRequest? {
        guard !isClosed, let index = entries.firstIndex(where: { $0.request.id == id }),
            entries[index].state == .waiting, now < entries[index].request.deadline
        else { return nil }
        entries[index].state = approver.map { .approved(by: $0) } ?? .denied
        return entries[index].request
    }

    /// A request is about to be sent, and its approval is used up.
    ///
    /// - Parameter subject: What would be sent.
    /// - Returns: The operator who approved exactly this request; nil if it was not approved in time.
    mutating func release(_ id: String, _ subject: HeldRequest.Subject, at now: MonotonicTime) -> String? {
        guard !isClosed, let index = entries.firstIndex(where: { $0.request.id == id }),
            case .approved(let operatorName) = entries[index].state, entries[index].request.subject == subject,
            now < entries[index].request.deadline
        else { return nil }
        entries.remove(at: index)
        return operatorName
    }

    /// A request ends before it was sent.
    ///
    /// - Returns: The request whose end must be recorded; nil if it was denied, which is recorded already, or is not held.
    mutating func leave(_ id: String) -> HeldRequest? {
        guard let index = entries.firstIndex(where: { $0.request.id == id }) else { return nil }
        let entry = entries.remove(at: index)
        return entry.state == .denied ? nil : entry.request
    }

    /// The gateway stops: from now on, nothing is taken, approved or sent.
    mutating func close() { isClosed = true }
}

/// The calls in a body, for a person and for the answer.
struct HeldCalls: Hashable, Sendable {
    /// What each of them calls: the tool, or the method.
    let names: [String]
    private let ids: [String]
    private let isBatch: Bool

    /// - Parameter rules: What each of them names has to be approved.
    /// - Returns: nil if the body calls nothing of that.
    init?(_ body: borrowing Span<UInt8>, of rules: [ToolRule]) throws(RPCFault) {
        let read = try RPCBody(body)
        let calls = read.messages.compactMap { message -> [UInt8]? in
            guard let method = message.method, rules.contains(where: { $0.names(message) }) else { return nil }
            return method.elementsEqual("tools/call".utf8) ? message.name ?? method : method
        }
        guard !calls.isEmpty else { return nil }
        names = calls.map { String(decoding: $0, as: UTF8.self).singleLine(limit: 128) }
        ids = read.messages.compactMap { $0.method == nil ? nil : $0.id }
        isBatch = read.isBatch
    }

    /// The answer in place of the server's. With any other status than 200, some clients end the session instead of showing the error.
    func refusal(_ message: String) -> RPCRefusal {
        let failures = ids.map { RPCRefusal.Failure(id: $0, code: RPCRefusal.invalidRequest, message: message) }
        guard let first = failures.first else {
            return RPCRefusal(.init(id: nil, code: RPCRefusal.invalidRequest, message: message), status: 403)
        }
        return isBatch ? RPCRefusal(failures, status: 200) : RPCRefusal(first, status: 200)
    }
}

// MARK: Problems

extension HeldRequests.Refusal {
    func problem(_ bounds: HeldRequests.Bounds = HeldRequests.Bounds()) -> GatewayProblem {
        switch self {
        case .client:
            GatewayProblem(
                .clientLimitReached,
                "This client may have at most \(bounds.requestsPerClient) requests and "
                    + "\(ConfigUnits.text(bytes: bounds.bytesPerClient)) waiting for approval.",
                retryAfter: .seconds(10)
            )
        case .pace:
            GatewayProblem(
                .clientLimitReached,
                "This client may send at most \(bounds.perMinute) requests per minute that wait for approval.",
                retryAfter: .seconds(60)
            )
        case .all:
            GatewayProblem(
                .overloaded,
                "At most \(bounds.requests) requests and \(ConfigUnits.text(bytes: bounds.bytes)) may wait for approval.",
                retryAfter: .seconds(10)
            )
        case .stopping: GatewayProblem(.draining, "The gateway is stopping.", retryAfter: .seconds(1))
        }
    }
}

/// Why a request that needs an approval is not sent.
enum ApprovalFailure: Hashable, Sendable {
    case denied
    case expired
    /// It would not be sent in the same way now.
    case excluded
    case hasTrailers
    case hasDestination
    case hasUpgrade
    case unreadable(RPCFault)

    /// - Parameter byteCount: Of the trailer section; an empty one is only the final CRLF.
    init?(ofTrailers byteCount: Int) {
        guard byteCount > 2 else { return nil }
        self = .hasTrailers
    }

    var problem: GatewayProblem {
        switch self {
        case .denied: GatewayProblem(.approvalRequired, "An operator denied this request.")
        case .expired:
            GatewayProblem(
                .approvalRequired,
                "No operator approved this request within \(ConfigUnits.text(HeldRequest.patience))."
            )
        case .excluded:
            GatewayProblem(
                .routeForbidden,
                "The request was approved, but not sent: since it arrived, its client, route or rule has changed, or the client's token"
                    + " has expired."
            )
        case .hasTrailers:
            GatewayProblem(.routeForbidden, "A request that has to be approved cannot have trailers.")
        case .hasDestination:
            GatewayProblem(.routeForbidden, "A request that has to be approved cannot have a Destination.")
        case .hasUpgrade:
            GatewayProblem(
                .routeForbidden,
                "A request that has to be approved cannot open a tunnel such as a WebSocket."
            )
        case .unreadable(let fault):
            GatewayProblem(.requestRefused, "The body \(fault.rawValue), so nobody can approve it.")
        }
    }
}
