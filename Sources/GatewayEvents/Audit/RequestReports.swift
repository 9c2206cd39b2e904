package import GatewayHTTP

/// What is written of requests that were not served, and when: failures, denials, and requests that no route was meant for.
///
/// Failures and denials are rows of the audit log and share one budget. The others are lines of the access log and have their own.
package struct RequestReports<Sample: Sendable>: Sendable {
    package enum Key: Hashable, Sendable {
        /// - Parameters:
        ///   - client: Where the failure is the client's own.
        ///   - status: The status of the upstream's answer, where that is the failure; see ``CountedStatus``.
        case failed(route: Int?, reason: FailureReason, client: String?, status: Int?)
        case denied(network: String, client: String?, reason: ProblemKind)
        /// 404, 405 and 421.
        case stray(host: String, network: String, reason: ProblemKind)
    }

    package typealias Row = MergedEvents<Key, Sample>.Row

    private var rows = RowBudget()
    private var lines = RowBudget()
    private var failures: MergedEvents<Key, Sample>
    private var denials: MergedEvents<Key, Sample>
    private var strays: MergedEvents<Key, Sample>

    /// Together they fit into the queue before the audit log, so that nothing is lost at the stop.
    static var maximumFailures: Int { 512 }
    static var maximumDenials: Int { 256 }
    static var maximumStrays: Int { 256 }

    package init() {
        failures = Self.merged(Self.maximumFailures)
        denials = Self.merged(Self.maximumDenials)
        strays = Self.merged(Self.maximumStrays)
    }

    /// A client or an address has a quarter of the places. Otherwise one that fails in ever new ways would leave the others without a row.
    private static func merged(_ limit: Int) -> MergedEvents<Key, Sample> {
        MergedEvents(limit: limit, limitPerCause: limit / 4, overflow: \.merged)
    }

    /// - Returns: The row to write now, if there is one.
    package mutating func add(
        _ failure: RequestFailure,
        problem: ProblemKind?,
        status: Int,
        route: Int?,
        client: String?,
        id: @autoclosure () -> String,
        at now: MonotonicTime,
        sample: @autoclosure () -> Sample
    ) -> Row? {
        let network = PeerAddressKey.network(ofAddress: failure.place.peer)
        switch problem {
        case let kind? where kind.isDenial:
            return denials.add(
                .denied(network: network, client: client, reason: kind),
                for: client ?? network,
                id: id(),
                at: now,
                budget: &rows,
                sample: sample()
            )
        case let kind? where kind.isStray:
            return strays.add(
                .stray(host: failure.place.host, network: network, reason: kind),
                for: network,
                id: id(),
                at: now,
                budget: &lines,
                sample: sample()
            )
        default:
            return failures.add(
                .failed(
                    route: route,
                    reason: failure.reason,
                    client: problem?.isOfClient ?? false ? client ?? network : nil,
                    status: problem == nil ? CountedStatus.number(for: status) : nil
                ),
                for: client ?? network,
                id: id(),
                at: now,
                budget: &rows,
                sample: sample()
            )
        }
    }

    /// The rows that are due. To be asked every second.
    package mutating func due(at now: MonotonicTime) -> [Row] {
        failures.due(at: now, budget: &rows) + denials.due(at: now, budget: &rows) + strays.due(at: now, budget: &lines)
    }

    /// All that is in no row yet; nothing comes after it.
    package mutating func rest() -> [Row] { failures.rest() + denials.rest() + strays.rest() }
}

extension RequestReports.Key {
    /// The shared key under which an event is counted for whose own key there is no room.
    package var merged: Self {
        switch self {
        case .failed(_, let reason, _, _): .failed(route: nil, reason: reason, client: nil, status: nil)
        case .denied(_, _, let reason): .denied(network: "", client: nil, reason: reason)
        case .stray(_, _, let reason): .stray(host: "", network: "", reason: reason)
        }
    }
}

extension TokenEvent {
    /// The row of the audit log for some failures or denials; nil for what only the access log counts.
    package init?(_ row: RequestReports<RequestUse>.Row) {
        let use = row.sample
        let name: Name
        var detail = row.detail
        switch row.key {
        case .failed: name = .requestFailed
        case .denied(_, _, let reason):
            name = .clientDenied
            detail["reason"] = reason.rawValue
        case .stray: return nil
        }
        self.init(
            at: use.at,
            name: name,
            credential: row.isMixed ? nil : use.credential ?? use.failure?.credential,
            generation: row.isMixed ? nil : use.generation,
            demand: CredentialRequest(
                route: row.isMixed ? "" : use.route,
                client: row.isMixed ? nil : use.client,
                requestID: use.requestID,
                clientRequestID: use.clientRequestID
            ),
            outcome: .failed,
            httpStatus: use.status == 0 ? nil : use.status,
            errorCode: use.failure?.reason.description,
            duration: use.duration,
            detail: detail
        )
    }
}

extension RequestReports<RequestUse>.Row {
    /// It counts requests that had no row of their own, of several routes or addresses.
    package var isMixed: Bool { key == key.merged }

    /// What has no column of its own, by the names that the log has, too.
    package var detail: [String: String] {
        let use = sample
        var detail = ["method": use.method]
        if let failure = use.failure {
            detail["peer"] = isMixed ? nil : failure.place.peer
            detail["path"] = isMixed || failure.place.path.isEmpty ? nil : failure.place.path
            detail["explanation"] = failure.explanation
            detail["command"] = failure.command
            detail["cause"] = failure.cause?.code
            if let problem = use.problem, problem.rawValue != failure.reason.description {
                detail["problem"] = problem.rawValue
            }
            if failure.isCut { detail["cut"] = "true" }
        }
        detail["engine"] = use.engine
        if use.wasReplayed { detail["replayed"] = "true" }
        let timings = [
            ("credential_ms", use.timings.credential), ("connection_ms", use.timings.connection),
            ("response_ms", use.timings.response),
        ]
        for (name, time) in timings { detail[name] = time.map { String($0.wholeMilliseconds) } }
        if count > 1 {
            detail["count"] = String(count)
            detail["requests"] = ids.joined(separator: " ")
        }
        return detail.filter { !$0.value.isEmpty }
    }
}
