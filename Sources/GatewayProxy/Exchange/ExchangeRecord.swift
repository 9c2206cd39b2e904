package import GatewayEvents
package import GatewayHTTP
package import GatewayTokens

/// What happens to one request, written while it runs; at its end it is lent to the log, metrics and usage counts.
///
/// Never copied: there is one for every request. What outlives the request is a ``FinishedRequest``.
package struct ExchangeRecord: ~Copyable, Sendable {
    package let requestID: RequestID
    /// The client's own, where it sent one (``ClientRequestID``).
    package let clientRequestID: String?
    /// The event loop it ran on, in the data plane's numbering.
    package let worker: Int
    /// What the observer numbers the route by; nil when no route was found.
    package var route: Int?
    package var client: String?
    package let method: String
    /// Host and port that the client has named, where no route leads there; nil otherwise.
    package var destination: String?
    /// Set where an engine asked about the request; nil for a request that the gateway itself forwards.
    package var engine: AuthzOutcome? {
        get { asking?.outcome }
        set { asking = newValue.map { Asking($0) } }
    }
    fileprivate var asking: Asking?
    /// What the client was answered; 0 when nothing was sent.
    package var status = 0
    /// Set when the gateway answered by itself.
    package var problem: ProblemKind?
    /// Set for a request that failed.
    package var failure: RequestFailure?
    /// nil when nothing was injected.
    package var credential: Credential?
    /// Whether the request was sent to the upstream, at least in part.
    package var wasSent = false
    package var wasReplayed = false
    /// nil where telemetry is off.
    package var trace: RequestTrace?
    /// The client's connection is encrypted; said only beside ``trace``.
    package var isTLS = false
    package var bytesReceived = 0
    package var bytesSent = 0
    package let startedAt: MonotonicTime
    package var finishedAt: MonotonicTime
    package var timings = RequestTimings()

    /// A class: an optional value with a string is copied by the witness of its type, only to find out that it is nil.
    fileprivate final class Asking: Sendable {
        let outcome: AuthzOutcome

        init(_ outcome: AuthzOutcome) { self.outcome = outcome }
    }

    /// - Parameter finishedAt: nil where it is not known yet.
    package init(
        requestID: RequestID,
        clientRequestID: String? = nil,
        worker: Int = 0,
        route: Int?,
        client: String?,
        method: String,
        startedAt: MonotonicTime,
        finishedAt: MonotonicTime? = nil
    ) {
        self.requestID = requestID
        self.clientRequestID = clientRequestID
        self.worker = worker
        self.route = route
        self.client = client
        self.method = method
        self.startedAt = startedAt
        self.finishedAt = finishedAt ?? startedAt
    }
}

/// What is kept of a request that is over: in the ring of its worker, and until the audit log collects it.
///
/// It names the credential and does not hold it: it may have been taken away. The route is a number, the id and the times are as the
/// worker has them, so keeping one request makes no string. A reader makes a `RequestUse` of it, with names and civil time.
package struct FinishedRequest: Sendable {
    package private(set) var requestID: RequestID
    package private(set) var clientRequestID: String?
    package private(set) var route: Int?
    package private(set) var client: String?
    package private(set) var method = ""
    package private(set) var status = 0
    package private(set) var problem: ProblemKind?
    package private(set) var credential: String?
    package private(set) var generation: Int?
    package private(set) var wasReplayed = false
    package private(set) var bytesReceived = 0
    package private(set) var bytesSent = 0
    package private(set) var startedAt: MonotonicTime
    package private(set) var finishedAt: MonotonicTime
    package private(set) var timings = RequestTimings()
    package private(set) var engine: String?
    private var failed: Failed?

    /// Few requests fail, and what there is to say of one takes as much room as all the rest.
    private final class Failed: Sendable {
        let failure: RequestFailure

        init(_ failure: RequestFailure) { self.failure = failure }
    }

    package var failure: RequestFailure? { failed?.failure }

    package init(_ record: borrowing ExchangeRecord) {
        self.init()
        replace(with: record)
    }

    /// Stands in a place that was not used yet.
    fileprivate init() {
        requestID = RequestID(run: 0, worker: 0, number: 0)
        startedAt = MonotonicTime(nanoseconds: 0)
        finishedAt = MonotonicTime(nanoseconds: 0)
    }

    /// Takes the request in place of the one that was here, without a copy of all of it.
    ///
    /// Optional strings are taken apart: assigned as a whole they are copied by the witness of their type, for ten times as much.
    fileprivate mutating func replace(with record: borrowing ExchangeRecord) {
        requestID = record.requestID
        if let id = record.clientRequestID {
            clientRequestID = id
        } else if clientRequestID != nil {
            clientRequestID = nil
        }
        route = record.route
        if let name = record.client { client = name } else { client = nil }
        method = record.method
        status = record.status
        problem = record.problem
        if let used = record.credential {
            credential = used.name
            generation = used.generation
        } else {
            credential = nil
            generation = nil
        }
        wasReplayed = record.wasReplayed
        bytesReceived = record.bytesReceived
        bytesSent = record.bytesSent
        startedAt = record.startedAt
        finishedAt = record.finishedAt
        timings = record.timings
        if let asking = record.asking { engine = asking.outcome.name } else if engine != nil { engine = nil }
        if let failure = record.failure { failed = Failed(failure) } else if failed != nil { failed = nil }
    }
}

extension RequestUse {
    /// - Parameters:
    ///   - wallOffset: What to add to a monotonic reading to get civil time, in nanoseconds.
    ///   - route: Its name; empty when none was found.
    package init(_ request: FinishedRequest, wallOffset: Int64, route: String) {
        self.init(
            at: UnixTime(milliseconds: (request.finishedAt.nanoseconds &+ wallOffset) / 1_000_000),
            requestID: request.requestID.description,
            clientRequestID: request.clientRequestID,
            route: route,
            client: request.client,
            method: request.method,
            status: request.status,
            problem: request.problem,
            failure: request.failure,
            credential: request.credential,
            generation: request.generation,
            wasReplayed: request.wasReplayed,
            bytesReceived: request.bytesReceived,
            bytesSent: request.bytesSent,
            duration: request.finishedAt - request.startedAt,
            timings: request.timings,
            engine: request.engine
        )
    }
}

/// The last requests of one worker, the oldest replaced first. Its memory is there from the beginning: adding one that has not failed
/// allocates nothing.
package struct RequestRing: ~Copyable, Sendable {
    private var entries: [FinishedRequest]
    /// How many were ever added.
    package private(set) var count: UInt64 = 0

    package init(capacity: Int) { entries = Array(repeating: FinishedRequest(), count: max(1, capacity)) }

    package mutating func add(_ record: borrowing ExchangeRecord) {
        entries[place(of: count)].replace(with: record)
        count &+= 1
        assert(count - first <= UInt64(entries.count), "The ring has more entries than places.")
        assert(
            entries[place(of: count - 1)].requestID == record.requestID,
            "The entry that was added is not in its place."
        )
    }

    /// The requests with this id, the gateway's or the client's, oldest first.
    package func find(_ id: String) -> [FinishedRequest] {
        let own = RequestID(id)
        var found: [FinishedRequest] = []
        visit(after: 0) { if $0.requestID == own || $0.clientRequestID == id { found.append($0) } }
        return found
    }

    /// Appends those that were added behind the first `position` ones, oldest first.
    ///
    /// - Returns: How many of them were replaced already.
    package func append(after position: UInt64, to found: inout [FinishedRequest]) -> UInt64 {
        visit(after: position) { found.append($0) }
        return first > position ? first - position : 0
    }

    /// Calls `body` with the timings of those that were added behind the first `position` ones, and that an upstream answered. Copies no
    /// request.
    package func visitTimings(after position: UInt64, _ body: (RequestTimings) -> Void) {
        var number = max(position, first)
        while number < count {
            let place = place(of: number)
            if entries[place].engine == nil { body(entries[place].timings) }
            number += 1
        }
    }

    /// The number of the oldest one that is there.
    private var first: UInt64 { count > UInt64(entries.count) ? count - UInt64(entries.count) : 0 }

    private func place(of number: UInt64) -> Int { Int(number % UInt64(entries.count)) }

    private func visit(after position: UInt64, _ body: (FinishedRequest) -> Void) {
        var number = max(position, first)
        while number < count {
            body(entries[place(of: number)])
            number += 1
        }
    }
}

/// What an engine was answered that asked about a request.
package struct AuthzOutcome: Hashable, Sendable {
    package enum Outcome: String, CaseIterable, Sendable {
        /// It was given the credential.
        case handedOut = "handed_out"
        /// It was given a newer credential than the one that it reported as rejected.
        case renewed
        /// It was given the credential that it reported as rejected: the path rejects every token, or no newer one is available.
        case unchanged
        /// It was given the rejected credential again, because the engine or the client has caused as many renewals as it may.
        case overBudget = "over_budget"
        /// The request may not have the credential.
        case refused
        /// The engine did not prove itself.
        case unproven
        /// There is no credential at the moment.
        case unavailable
    }

    package var name: String
    package var outcome: Outcome
}

extension AuthzOutcome.Outcome {
    /// The outcome of a request that was refused with this problem.
    package init(_ kind: ProblemKind) {
        self =
            switch kind {
            case .engineAuthRequired: .unproven
            case let kind where kind.status >= 500: .unavailable
            default: .refused
            }
    }
}

/// Told of every request that is over, on the event loop it ran on. Must return at once.
///
/// A class, so that a request does not copy a box to reach it.
package protocol ExchangeObserver: AnyObject, Sendable {
    func finished(_ record: borrowing ExchangeRecord)
    /// A request that waits for an approval was held, or its wait ended.
    func held(_ request: HeldRequest, _ event: HeldRequest.Event)
}

extension ExchangeObserver {
    package func held(_ request: HeldRequest, _ event: HeldRequest.Event) {}
}
