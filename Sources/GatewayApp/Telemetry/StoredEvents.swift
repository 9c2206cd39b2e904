import GatewayAudit
import GatewayEvents
import GatewayHTTP
import Synchronization

/// Reads events from the audit log for the page. One question at a time; each has a deadline.
final class StoredEvents: Sendable {
    /// How long an answer is waited for.
    private static let patience = Duration.seconds(1)
    /// Rows that one question looks at.
    private static let searchLimit = 100_000
    /// Rows of the last days that are looked at once, after the start.
    private static let pastLimit = 200_000

    private let reader: AuditReader
    private let isAsked = Atomic(false)

    init(reader: AuditReader) { self.reader = reader }

    /// How long the uses of static credentials are read after the start.
    private static let usePatience = Duration.seconds(3)

    /// What the page begins with after a start; nil when it cannot be read.
    ///
    /// - Parameter fixed: The names of the static credentials.
    func beforeStart(at now: UnixTime, fixed: Set<String>) async -> EventBroadcaster.Past? {
        let start = now + .seconds(-86_400 * Int64(CredentialTimeline.days))
        let begin = start.rfc3339
        // Rows are long, and a week may have many.
        let events = Mutex<[CredentialTimeline.Event]>([])
        do {
            let newest = try await reader.newest(lookingAt: RecentEvents.capacity)
            _ = try await reader.newest(
                lookingAt: Self.pastLimit,
                until: { $0.at < begin },
                picking: { row in
                    if CredentialTimeline.Mark(event: row.event) != nil,
                        let event = CredentialTimeline.Event(AuditEntry(row, withDetail: false))
                    {
                        events.withLock { $0.append(event) }
                    }
                    return false
                }
            )
            let answers =
                fixed.isEmpty ? nil : try? await reader.answers(to: fixed, since: start, within: Self.usePatience)
            return EventBroadcaster.Past(
                newest: newest.rows.reversed().map(AuditEntry.init),
                isWhole: newest.isWhole,
                timeline: events.withLock { $0.reversed() } + (answers ?? [])
            )
        } catch {
            return nil
        }
    }

    /// - Returns: nil when the log does not answer in time, or is asked already.
    func page(_ query: EventQuery, since id: Int64?, limit: Int) async -> RecentEvents.Page? {
        guard !isAsked.exchange(true, ordering: .sequentiallyConsistent) else { return nil }
        let answer = await Deadline.value(within: Self.patience) { [self] in
            defer { isAsked.store(false, ordering: .sequentiallyConsistent) }
            return await search(query, since: id, limit: limit)
        }
        return answer ?? nil
    }

    private func search(_ query: EventQuery, since id: Int64?, limit: Int) async -> RecentEvents.Page? {
        let since = id ?? .min
        let found = try? await reader.newest(
            lookingAt: Self.searchLimit,
            until: { $0.id <= since },
            picking: { query.matches(AuditEntry($0, withDetail: false)) }
        )
        guard let found else { return nil }
        let isCut = found.rows.count > limit
        // The search ended at a row that is known, or at the first one there is.
        let isWhole = found.isWhole || found.endedBefore.map { $0 <= since } ?? false
        return RecentEvents.Page(events: found.rows.prefix(limit).map(AuditEntry.init), isComplete: isWhole && !isCut)
    }
}

extension AuditEntry {
    init(_ row: AuditRow) { self.init(row, withDetail: true) }

    /// - Parameter withDetail: To read it takes longer than all the rest.
    fileprivate init(_ row: AuditRow, withDetail: Bool) {
        var detail: [String: String] = [:]
        if withDetail, case .object(let members)? = JSONValue(Array(row.detail.utf8)) {
            for (name, value) in members { detail[name] = value.string }
        }
        self.init(
            id: row.id,
            at: row.at,
            event: row.event,
            credential: row.credential,
            generation: row.generation.map { Int(clamping: $0) },
            trigger: row.trigger,
            route: row.route.flatMap { $0.isEmpty ? nil : $0 },
            client: row.client,
            requestID: row.requestID,
            isFailed: row.failed,
            httpStatus: row.httpStatus.map { Int(clamping: $0) },
            errorCode: row.errorCode,
            durationMilliseconds: row.durationMilliseconds.map { Int(clamping: $0) },
            expiresAt: row.expiresAt,
            detail: detail
        )
    }
}
