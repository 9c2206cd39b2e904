package import GatewayCore

/// A token store in memory that remembers every write and can be told to fail.
package final class RecordingTokenStore: TokenStore {
    package enum Operation: Hashable, Sendable {
        case load
        case save(StoredToken)
        case remove
    }

    private struct State: Sendable {
        var records: [CredentialKey: StoredToken] = [:]
        var operations: [Operation] = []
        var failing: (@Sendable (Operation) -> TokenStoreError?)?
    }

    private let state: Watched<State>

    package init(_ records: [CredentialKey: StoredToken] = [:]) { state = Watched(State(records: records)) }

    /// Everything that was tried, refused operations included, oldest first.
    package var operations: [Operation] { state.value.operations }
    package var saved: [StoredToken] {
        operations.compactMap { if case .save(let token) = $0 { token } else { nil } }
    }

    package subscript(key: CredentialKey) -> StoredToken? {
        get { state.value.records[key] }
        set { state.update { $0.records[key] = newValue } }
    }

    /// From now on an operation fails with what `failure` returns for it; nil repairs the store.
    package func fail(_ failure: (@Sendable (Operation) -> TokenStoreError?)?) { state.update { $0.failing = failure } }

    package func untilSaved(_ holds: @escaping @Sendable (StoredToken) -> Bool) async throws {
        try await state.until { $0.records.values.contains(where: holds) }
    }

    package func load(_ key: CredentialKey) async throws(TokenStoreError) -> StoredToken? {
        try attempt(.load) { $0[key] }
    }

    package func save(_ token: StoredToken, for key: CredentialKey) async throws(TokenStoreError) {
        try attempt(.save(token)) { $0[key] = token }
    }

    package func remove(_ key: CredentialKey) async throws(TokenStoreError) {
        try attempt(.remove) { $0[key] = nil }
    }

    private func attempt<Value: Sendable>(
        _ operation: Operation,
        _ body: (inout [CredentialKey: StoredToken]) -> Value
    ) throws(TokenStoreError) -> Value {
        let result: Result<Value, TokenStoreError> = state.update { state in
            state.operations.append(operation)
            if let failure = state.failing?(operation) { return .failure(failure) }
            return .success(body(&state.records))
        }
        return try result.get()
    }
}
