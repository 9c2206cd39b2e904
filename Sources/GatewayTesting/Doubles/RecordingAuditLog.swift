package import GatewayEvents

/// An audit log in memory that can be told to fail.
package final class RecordingAuditLog: AuditLog {
    private struct State: Sendable {
        var events: [TokenEvent] = []
        var uses: [TokenUse] = []
        var requests: [RequestUse] = []
        var requestLimit = Int.max
        var failing: (@Sendable (TokenEvent) -> Bool)?
        var refused = 0
        var withdrawals: [TokenEvent] = []
    }

    private let state = Watched(State())

    package init() {}

    /// The committed events, oldest first.
    package var events: [TokenEvent] { state.value.events }
    package var names: [TokenEvent.Name] { events.map(\.name) }
    package var uses: [TokenUse] { state.value.uses }
    /// How many events could not be written.
    package var refused: Int { state.value.refused }

    package func count(of name: TokenEvent.Name) -> Int { events.count { $0.name == name } }
    package func last(_ name: TokenEvent.Name) -> TokenEvent? { events.last { $0.name == name } }

    /// From now on events that `isRefused` picks are not written; nil writes all again.
    package func fail(_ isRefused: (@Sendable (TokenEvent) -> Bool)?) {
        state.update { state in
            state.failing = isRefused
            guard isRefused == nil else { return }
            state.events += state.withdrawals
            state.withdrawals = []
        }
    }

    /// What operators took away and what is not written yet.
    package var withdrawals: [TokenEvent] { state.value.withdrawals }

    package func untilRecorded(_ name: TokenEvent.Name, times: Int = 1) async throws {
        try await state.until { $0.events.count { $0.name == name } >= times }
    }

    package func untilRefused(times: Int = 1) async throws { try await state.until { $0.refused >= times } }

    package func record(_ event: TokenEvent) async throws(AuditError) {
        let isWritten = state.update { state in
            guard state.failing?(event) != true else {
                state.refused += 1
                return false
            }
            state.events.append(event)
            return true
        }
        guard isWritten else { throw AuditError("no space left on device") }
    }

    package func recordSoon(_ event: TokenEvent) async -> AuditError? {
        do throws(AuditError) {
            try await record(event)
            return nil
        } catch {
            state.update { $0.withdrawals.append(event) }
            return error
        }
    }

    package func count(_ use: TokenUse) { state.update { $0.uses.append(use) } }

    package var requests: [RequestUse] { state.value.requests }

    /// Sets how many requests have a place from now on.
    package func limitRequests(to limit: Int) { state.update { $0.requestLimit = limit } }

    package func keep(_ requests: [RequestUse]) -> Int {
        state.update { state in
            let accepted = min(requests.count, max(0, state.requestLimit - state.requests.count))
            state.requests += requests.prefix(accepted)
            return requests.count - accepted
        }
    }
}
