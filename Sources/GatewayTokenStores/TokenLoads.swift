import GatewayFiles
import GatewayHTTP
import GatewayTokens
import Synchronization

/// Makes one statement of the records that are asked for while another such statement is under way.
///
/// After a start, and after a renewal in a large fleet, many keepers ask at the same time.
final class TokenLoads: Sendable {
    typealias Rows = @Sendable ([CredentialKey]) async throws(TokenStoreError) -> [CredentialKey: StoredRow]
    private typealias End = Promise<Result<StoredRow, TokenStoreError>>

    private struct Caller {
        let key: CredentialKey
        let deadline: ContinuousClock.Instant
        let end: End
    }

    private struct State {
        var callers = FirstInFirstOut<Caller>()
        var isBusy = false
    }

    /// The number of records that one statement asks for.
    static let maximumKeys = 128

    private let state = Mutex(State())

    /// - Parameters:
    ///   - limit: A record that was not asked for within it is not asked for any more.
    ///   - rows: Asks the database; names a row for each key.
    func load(
        _ key: CredentialKey,
        within limit: Duration,
        from rows: @escaping Rows
    ) async throws(TokenStoreError) -> StoredRow {
        let caller = Caller(key: key, deadline: .now.advanced(by: limit), end: End())
        let isFirst = state.withLock { state in
            state.callers.append(caller)
            defer { state.isBusy = true }
            return !state.isBusy
        }
        if isFirst { Task { await askAll(rows) } }
        return try await caller.end.value().get()
    }

    private func askAll(_ rows: Rows) async {
        while let callers = next() {
            do throws(TokenStoreError) {
                let found = try await rows(Array(Set(callers.map(\.key))))
                for caller in callers {
                    let missing = TokenStoreError.unavailable(
                        "the token database did not return a record that was requested"
                    )
                    caller.end.keep(found[caller.key].map { .success($0) } ?? .failure(missing))
                }
            } catch {
                // The others have waited for the same database.
                for caller in callers + takeAll() { caller.end.keep(.failure(error)) }
            }
        }
    }

    /// - Returns: nil when there is no question.
    private func next() -> [Caller]? {
        state.withLock { state in
            var callers: [Caller] = []
            while callers.count < Self.maximumKeys, let caller = state.callers.removeFirst() {
                if caller.deadline > .now {
                    callers.append(caller)
                } else {
                    caller.end.keep(.failure(.unavailable("the token database did not answer in time")))
                }
            }
            state.isBusy = !callers.isEmpty
            return callers.isEmpty ? nil : callers
        }
    }

    private func takeAll() -> [Caller] {
        state.withLock { state in
            var callers: [Caller] = []
            while let caller = state.callers.removeFirst() { callers.append(caller) }
            return callers
        }
    }
}
