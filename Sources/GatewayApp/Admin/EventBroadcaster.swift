package import GatewayEvents
import GatewayHTTP
import Synchronization

/// Holds the newest events in memory and hands them to every stream as they are committed. Touches no disk.
package final class EventBroadcaster: Sendable {
    /// Streams at once. Operators and probes need connections of the admin listener, too.
    static let streamLimit = 32
    /// Signals that wait for one reader; one that is slower is cut.
    static let queueLimit = 256
    static let heartbeatSeconds = 15

    enum Signal: Sendable {
        case entry(AuditEntry)
        /// Nothing happened; tells a reader that the gateway still lives, and the gateway that the reader does.
        case heartbeat
    }

    /// What one reader is sent: first what it has missed, then the signals.
    struct Stream: Sendable {
        let number: Int
        let missed: [AuditEntry]
        /// False when some of what it has missed is not in memory any more.
        let isWhole: Bool
        let signals: AsyncStream<Signal>
    }

    private struct Reader {
        let query: EventQuery
        let signals: AsyncStream<Signal>.Continuation
        /// Ends the connection of a reader that does not read.
        let cut: @Sendable () -> Void

        /// - Returns: false when there is no room for one of them.
        func take(_ new: [Signal]) -> Bool {
            for signal in new {
                if case .entry(let entry) = signal, !query.matches(entry) { continue }
                if case .dropped = signals.yield(signal) { return false }
            }
            return true
        }
    }

    private struct State {
        var recent = RecentEvents()
        var timeline = CredentialTimeline()
        var readers: [Int: Reader] = [:]
        var count = 0
        var isClosed = false
    }

    private let state = Mutex(State())

    package init() {}

    // MARK: Events

    /// Takes rows that were committed just now. Never blocks.
    func publish(_ entries: [AuditEntry]) {
        send { state in
            state.recent.add(entries)
            for entry in entries { state.timeline.add(entry) }
            return entries.map { Signal.entry($0) }
        }
    }

    /// What the log held before the first event was published. Ids ascend.
    struct Past: Sendable {
        let newest: [AuditEntry]
        /// Whether the log held no others than the newest.
        let isWhole: Bool
        /// What of the last days stands in a timeline, the oldest first.
        let timeline: [CredentialTimeline.Event]
    }

    func begin(with past: Past) {
        state.withLock { state in
            for event in past.timeline { state.timeline.add(event) }
            state.recent.begin(with: past.newest, isWhole: past.isWhole)
        }
    }

    func page(_ query: EventQuery, since id: Int64? = nil, limit: Int) -> RecentEvents.Page {
        state.withLock { $0.recent }.page(query, since: id, limit: limit)
    }

    /// Takes how upstreams have answered static credentials lately.
    func note(_ uses: [AnsweredCredential], at time: UnixTime) {
        state.withLock { state in
            for use in uses { state.timeline.add(useOf: use.credential, isAccepted: use.isAccepted, at: time) }
        }
    }

    /// When the credential was locked; nil when it is not, or when that was long ago.
    func lockedAt(_ credential: String) -> UnixTime? {
        state.withLock { $0.timeline.lockedAt(credential) }
    }

    /// What the page shows.
    var snapshot: (recent: RecentEvents, timeline: CredentialTimeline) {
        state.withLock { ($0.recent, $0.timeline) }
    }

    // MARK: Streams

    /// - Parameters:
    ///   - id: The last row that the reader knows; nil begins with what comes.
    ///   - cut: Called when the reader is too slow.
    /// - Returns: nil when there are too many streams, or the gateway stops.
    func open(_ query: EventQuery, after id: Int64?, cut: @escaping @Sendable () -> Void) -> Stream? {
        state.withLock { state in
            guard !state.isClosed, state.readers.count < Self.streamLimit else { return nil }
            let queue = AsyncStream.makeStream(of: Signal.self, bufferingPolicy: .bufferingOldest(Self.queueLimit))
            let (missed, isWhole) = id.map { state.recent.entries(after: $0, matching: query) } ?? ([], true)
            state.count += 1
            state.readers[state.count] = Reader(query: query, signals: queue.continuation, cut: cut)
            return Stream(number: state.count, missed: missed, isWhole: isWhole, signals: queue.stream)
        }
    }

    /// Repeating it has no effect.
    func end(_ number: Int) {
        let reader = state.withLock { $0.readers.removeValue(forKey: number) }
        reader?.signals.finish()
    }

    /// Ends every stream; there are no new ones.
    func close() {
        let readers = state.withLock { state in
            defer { state.readers = [:] }
            state.isClosed = true
            return Array(state.readers.values)
        }
        for reader in readers { reader.signals.finish() }
    }

    /// The requests that ended since a cursor was given, the oldest first; all that are in memory without one.
    package typealias Requests = @Sendable (_ cursor: String?) -> (entries: [AuditEntry], cursor: String)

    /// Sends heartbeats, and requests where somebody wants them, until it is cancelled.
    func run(_ requests: Requests) async {
        var (seconds, cursor) = (0, String?.none)
        while (try? await Task.sleep(for: .seconds(1))) != nil {
            seconds += 1
            if seconds.isMultiple(of: Self.heartbeatSeconds) { send { _ in [.heartbeat] } }
            guard wantsRequests else {
                cursor = nil
                continue
            }
            let batch = requests(cursor)
            // The first one says where to begin.
            if cursor != nil { send { _ in batch.entries.map { .entry($0) } } }
            cursor = batch.cursor
        }
    }

    private var wantsRequests: Bool {
        state.withLock { $0.readers.values.contains { $0.query.kind == .group(.requests) } }
    }

    private func send(_ signals: (inout State) -> [Signal]) {
        let slow = state.withLock { state in
            let signals = signals(&state)
            let slow = state.readers.filter { !$0.value.take(signals) }
            for number in slow.keys { state.readers[number] = nil }
            return Array(slow.values)
        }
        for reader in slow {
            reader.signals.finish()
            reader.cut()
        }
    }
}
