package import GatewayHTTP

/// What is written of requests that were not served, and when: failures, denials, and requests that no route was meant for.
///
/// Failures and denials are rows of the audit log and share one budget. The others are lines of the access log and have their own.
package struct RequestReports<Sample: Sendable>: Sendable {
    package enum Key: Hashable, Sendable {
        /// - Parameters:
        ///   - client: Where the failure is the client's own.
        ///   - status: Of the upstream's answer, where that is the failure; see ``CountedStatus``.
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
    package static var maximumFailures: Int { 512 }
    package static var maximumDenials: Int { 256 }
    package static var maximumStrays: Int { 256 }

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
    /// Counts what has no place of its own.
    package var merged: Self {
        switch self {
        case .failed(_, let reason, _, _): .failed(route: nil, reason: reason, client: nil, status: nil)
        case .denied(_, _, let reason): .denied(network: "", client: nil, reason: reason)
        case .stray(_, _, let reason): .stray(host: "", network: "", reason: reason)
        }
    }
}
