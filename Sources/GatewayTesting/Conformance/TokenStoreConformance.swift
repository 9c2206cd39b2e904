package import GatewayCore

/// What every ``TokenStore`` promises. Run it from the store's own tests.
///
///     try await TokenStoreConformance { try SQLiteTokenStore(...) } reopen: { ... }.check()
package struct TokenStoreConformance<Store: TokenStore>: Sendable {
    let makeStore: @Sendable () async throws -> Store
    let reopen: (@Sendable (Store) async throws -> Store)?
    let beside: (@Sendable (Store) async throws -> Store)?
    private let damage: (@Sendable (Store, CredentialKey) async throws -> Void)?

    /// - Parameters:
    ///   - makeStore: Makes an empty store; called once per promise.
    ///   - reopen: Opens what the given store has written, as a restarted process would. nil for stores that forget.
    ///   - beside: Opens what the given store uses a second time, as another gateway would; the first goes on. It may be the
    ///     store itself, where the kind has one object only. nil for a store that has no such thing.
    ///   - damage: Changes a record behind the store's back. nil for stores that only the process itself can reach.
    package init(
        makeStore: @escaping @Sendable () async throws -> Store,
        reopen: (@Sendable (Store) async throws -> Store)? = nil,
        beside: (@Sendable (Store) async throws -> Store)? = nil,
        damage: (@Sendable (Store, CredentialKey) async throws -> Void)? = nil
    ) {
        self.makeStore = makeStore
        self.reopen = reopen
        self.beside = beside
        self.damage = damage
    }

    package func check() async throws {
        try await saysThatNothingWasSaved()
        try await readsBackWhatWasSaved()
        try await replacesTheWholeRecord()
        try await keepsKeysApart()
        try await forgetsWhatWasRemoved()
        try await keepsOneWholeRecordUnderConcurrentWrites()
        try await survivesReopening()
        try await reportsDamageInsteadOfAnEmptyStore()
        try await checkRevisions()
        try await checkLeases()
        try await checkChanges()
        try await checkLocks()
    }

    let key = CredentialKey(digest: "00ff11ee22dd33cc44bb55aa6699778800ff11ee22dd33cc44bb55aa66997788")
    let otherKey = CredentialKey(digest: "11ff11ee22dd33cc44bb55aa6699778800ff11ee22dd33cc44bb55aa66997788")

    /// Everything that a record can hold, at its edges.
    let records: [StoredToken] = [
        StoredToken(generation: 1, token: TokenSet(access: Secret("a"), obtainedAt: UnixTime(milliseconds: 0))),
        StoredToken(
            generation: 42,
            token: TokenSet(
                access: Secret("access-é-🔑-\"quoted\"\n"),
                refreshToken: Secret("renewal"),
                obtainedAt: UnixTime(milliseconds: 1_772_357_400_123),
                expiresAt: UnixTime(milliseconds: 1_772_361_000_456),
                refreshTokenExpiresAt: UnixTime(milliseconds: 1_777_545_000_789),
                refreshTokenObtainedAt: UnixTime(milliseconds: 1_772_361_000_790)
            ),
            previousRefreshToken: Secret("previous"),
            attempt: RotationAttempt(
                id: "b1946ac9",
                generation: 42,
                startedAt: UnixTime(milliseconds: 1_772_360_999_789)
            ),
            isRejected: true
        ),
        StoredToken(
            generation: 1 << 40,
            token: TokenSet(
                access: Secret(String(repeating: "x", count: 64 << 10)),
                obtainedAt: UnixTime(milliseconds: 1),
                expiresAt: UnixTime(milliseconds: 253_402_300_799_999)
            )
        ),
    ]

    private func saysThatNothingWasSaved() async throws {
        let loaded = try await makeStore().load(key)
        try promise(loaded == .nothing, "an empty store has no record")
    }

    private func readsBackWhatWasSaved() async throws {
        let store = try await makeStore()
        for (index, record) in records.enumerated() {
            try await store.replace(record, for: key)
            let loaded = try await store.load(key).token
            try promise(loaded == record, "record \(index) comes back as it was saved")
        }
    }

    private func replacesTheWholeRecord() async throws {
        let store = try await makeStore()
        try await store.replace(records[1], for: key)
        try await store.replace(records[0], for: key)
        let loaded = try await store.load(key).token
        try promise(loaded == records[0], "nothing of an older record shows through a newer one")
    }

    private func keepsKeysApart() async throws {
        let store = try await makeStore()
        try await store.replace(records[0], for: key)
        try await store.replace(records[1], for: otherKey)
        let loaded = try await (store.load(key).token, store.load(otherKey).token)
        try promise(loaded.0 == records[0] && loaded.1 == records[1], "each key has its own record")
        try await store.replace(nil, for: key)
        let kept = try await store.load(otherKey).token
        try promise(kept == records[1], "removing one key leaves the others")
    }

    private func forgetsWhatWasRemoved() async throws {
        let store = try await makeStore()
        try await store.replace(records[1], for: key)
        try await store.replace(nil, for: key)
        let loaded = try await store.load(key).token
        try promise(loaded == nil, "a removed record is gone")
        try await store.replace(nil, for: key)
        try await store.replace(records[0], for: key)
        let again = try await store.load(key).token
        try promise(again == records[0], "a removed key can be saved again")
    }

    private func keepsOneWholeRecordUnderConcurrentWrites() async throws {
        let store = try await makeStore()
        let written = (1...32).map { number in
            StoredToken(
                generation: number,
                token: TokenSet(
                    access: Secret("access-\(number)"),
                    refreshToken: Secret("renewal-\(number)"),
                    obtainedAt: UnixTime(milliseconds: Int64(number))
                )
            )
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for record in written { group.addTask { try await store.replace(record, for: key) } }
            try await group.waitForAll()
        }
        let loaded = try await store.load(key).token
        try promise(loaded.map { written.contains($0) } == true, "concurrent writes leave one of the records, whole")
    }

    private func survivesReopening() async throws {
        guard let reopen else { return }
        let store = try await makeStore()
        try await store.replace(records[1], for: key)
        try await store.replace(records[0], for: otherKey)
        try await store.replace(nil, for: otherKey)
        let reopened = try await reopen(store)
        let loaded = try await (reopened.load(key).token, reopened.load(otherKey).token)
        try promise(loaded.0 == records[1], "a saved record outlives the process")
        try promise(loaded.1 == nil, "a removed record does not come back")
    }

    private func reportsDamageInsteadOfAnEmptyStore() async throws {
        guard let damage else { return }
        let store = try await makeStore()
        try await store.replace(records[1], for: key)
        try await damage(store, key)
        let opened = try await reopen?(store) ?? store
        do throws(TokenStoreError) {
            _ = try await opened.load(key)
        } catch .damaged {
            return
        } catch {
            throw ConformanceFailure("a damaged record is reported as damaged, not as \(error)")
        }
        throw ConformanceFailure("a damaged record is an error, not a record and not an empty store")
    }
}
