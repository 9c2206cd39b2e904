import GatewayHTTP
package import GatewayTokens

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
    private let otherKey = CredentialKey(digest: "11ff11ee22dd33cc44bb55aa6699778800ff11ee22dd33cc44bb55aa66997788")

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

/// What a store tells of the writes of others, and of the locks that gateways share.
extension TokenStoreConformance {
    private func checkChanges() async throws {
        let (one, other) = try await pair()
        let before = try await other.replace(number(1), for: key)
        let start = try await other.changes(since: nil)
        try promise(start.revisions.isEmpty, "the first look brings the mark alone")
        let heard = other.changes()
        let revision = try await one.replace(number(2), for: key)
        let removed = try await one.replace(nil, for: otherKey)
        let changes = try await other.changes(since: start.mark)
        try promise(changes.revisions[key] == revision, "a change is named with its revision")
        try promise(changes.revisions[otherKey] == removed, "a removal is a change")
        try promise(revision > before, "a change raises the revision")
        let later = try await other.changes(since: changes.mark)
        try promise(later.revisions.allSatisfy { changes.revisions[$0] == $1 }, "no change is invented")
        guard let heard else { return }
        let isHeard = await withTaskGroup(of: Bool.self) { group in
            group.addTask {
                for await change in heard where change.key == key { return true }
                return false
            }
            group.addTask {
                // It may take a moment until a store listens.
                for number in 3...27 where (try? await Task.sleep(for: .milliseconds(200))) != nil {
                    _ = try? await one.replace(self.number(number), for: key)
                }
                return false
            }
            defer { group.cancelAll() }
            return await group.next() ?? false
        }
        try promise(isHeard, "a store that tells of changes tells of one that another store made")
    }

    private func checkLocks() async throws {
        let (store, second) = try await pair()
        guard let one = store.sharedLocks, let other = second.sharedLocks else { return }
        let none = try await one.update(locking: [], unlocking: [])
        try promise(none.names.isEmpty, "nothing is locked at first")
        let own = try await one.update(locking: ["box", "lms"], unlocking: [])
        try promise(own.names == ["box", "lms"], "what is locked is answered")
        let seen = try await other.update(locking: ["crm"], unlocking: ["lms", "unknown"])
        try promise(seen.names == ["box", "crm"], "names are added and removed in one step, and others' names stay")
        let all = try await one.update(locking: ["box"], unlocking: [])
        try promise(all.names == ["box", "crm"], "the other store reads them, and locking twice is locking")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...16 {
                let locks = number.isMultiple(of: 2) ? one : other
                group.addTask { _ = try await locks.update(locking: ["c\(number)"], unlocking: []) }
            }
            try await group.waitForAll()
        }
        let many = try await other.update(locking: [], unlocking: [])
        try promise(many.names.count == 18, "of locks at the same time none is lost")
        guard let reopen else { return }
        let reopened = try await reopen(store).sharedLocks?.update(locking: [], unlocking: [])
        try promise(reopened?.names == many.names, "locks outlive the process")
    }
}

/// What a store promises to several writers of one record. Two stores on one state write where the kind has that.
extension TokenStoreConformance {
    /// Long enough for a slow machine, and short enough to wait for.
    private var briefly: Duration { .milliseconds(150) }
    private var long: Duration { .seconds(60) }

    func pair() async throws -> (Store, Store) {
        let store = try await makeStore()
        return (store, try await beside?(store) ?? store)
    }

    func number(_ number: Int) -> StoredToken {
        StoredToken(
            generation: number,
            token: TokenSet(
                access: Secret("access-\(number)"),
                refreshToken: Secret("renewal-\(number)"),
                obtainedAt: UnixTime(milliseconds: Int64(number))
            )
        )
    }

    private func journalled(_ number: Int) -> StoredToken {
        var token = self.number(number)
        let start = UnixTime(milliseconds: Int64(number))
        token.attempt = RotationAttempt(id: "attempt-\(number)", generation: number, startedAt: start)
        return token
    }

    private func granted(
        by store: Store,
        expecting revision: TokenRevision,
        for time: Duration? = nil,
        writing token: StoredToken? = nil
    ) async throws -> TokenLease {
        let answer = try await store.lease(key, expecting: revision, for: time ?? long, writing: token)
        guard case .granted(let lease) = answer else {
            throw ConformanceFailure("a free lease is granted, not \(answer)")
        }
        try promise(lease.key == key && lease.revision > revision, "a lease that is taken raises the revision")
        return lease
    }

    private func requireChanged(_ answer: TokenSaveAnswer, to expected: TokenEntry, _ what: String) throws {
        try promise(answer == .changed(expected), what)
    }

    // MARK: Revisions

    private func checkRevisions() async throws {
        try await refusesAWriteUnderAnEarlierRevision()
        try await keepsTheRevisionOfWhatWasRemoved()
        try await letsOneOfManyWritersWin()
    }

    private func refusesAWriteUnderAnEarlierRevision() async throws {
        let (one, other) = try await pair()
        guard case .saved(let first) = try await one.save(number(1), for: key, expecting: .none) else {
            throw ConformanceFailure("a first record is written by who knows of none")
        }
        try promise(first > .none, "a record that was written has a revision")
        let loaded = try await other.load(key)
        try promise(
            loaded == TokenEntry(token: number(1), revision: first),
            "the other store reads record and revision"
        )
        try requireChanged(
            try await other.save(number(9), for: key, expecting: .none),
            to: loaded,
            "a writer that knows of no record is told what there is"
        )
        guard case .saved(let second) = try await other.save(number(2), for: key, expecting: first) else {
            throw ConformanceFailure("a writer that knows the revision writes")
        }
        try promise(second > first, "each write raises the revision")
        try requireChanged(
            try await one.save(number(3), for: key, expecting: first),
            to: TokenEntry(token: number(2), revision: second),
            "of two writers that know the same revision the second one is refused, and told what there is"
        )
        let replaced = try await one.replace(number(4), for: key)
        try promise(replaced > second, "what an operator writes raises the revision")
        let end = try await other.load(key)
        try promise(end == TokenEntry(token: number(4), revision: replaced), "an operator writes in any case")
    }

    private func keepsTheRevisionOfWhatWasRemoved() async throws {
        let (one, other) = try await pair()
        let first = try await one.replace(number(1), for: key)
        let removed = try await other.replace(nil, for: key)
        try promise(removed > first, "a removal raises the revision")
        let left = try await one.load(key)
        try promise(left == TokenEntry(token: nil, revision: removed), "a removed record keeps its revision")
        for known in [first, .none] {
            try requireChanged(
                try await one.save(number(2), for: key, expecting: known),
                to: left,
                "a late write does not bring a removed record back"
            )
        }
        guard case .saved(let again) = try await one.save(number(3), for: key, expecting: removed) else {
            throw ConformanceFailure("a removed record is written by who knows that it was removed")
        }
        try promise(again > removed, "the revision goes on after a removal")
    }

    private func letsOneOfManyWritersWin() async throws {
        let (one, other) = try await pair()
        let first = try await one.replace(number(1), for: key)
        let winners: [StoredToken] = try await withThrowingTaskGroup(of: StoredToken?.self) { group in
            for index in 2...17 {
                let (store, token) = (index.isMultiple(of: 2) ? one : other, number(index))
                group.addTask {
                    let answer = try await store.save(token, for: key, expecting: first)
                    return if case .saved = answer { token } else { nil }
                }
            }
            return try await group.reduce(into: [StoredToken]()) { if let token = $1 { $0.append(token) } }
        }
        try promise(winners.count == 1, "of many writers that know one revision one writes, not \(winners.count)")
        let loaded = try await other.load(key)
        try promise(loaded.token == winners.first, "what is stored is what the winner wrote")
    }

    // MARK: Leases

    private func checkLeases() async throws {
        try await givesALeaseToOne()
        try await letsTheHolderWrite()
        try await endsALeaseByItself()
        try await prolongsALease()
        try await releasesALease()
        try await letsAnOperatorEndALease()
        try await leasesWhatWasNeverWritten()
    }

    private func givesALeaseToOne() async throws {
        let (one, other) = try await pair()
        let first = try await one.replace(number(1), for: key)
        let leases = try await withThrowingTaskGroup(of: Bool.self) { group in
            for index in 1...8 {
                let store = index.isMultiple(of: 2) ? one : other
                group.addTask {
                    let answer = try await store.lease(key, expecting: first, for: long, writing: nil)
                    if case .changed = answer { throw ConformanceFailure("a leased record is held, not changed") }
                    return if case .granted = answer { true } else { false }
                }
            }
            return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        try promise(leases == 1, "of many who ask for a lease one gets it, not \(leases)")
        let entry = try await other.load(key)
        try promise(entry.token == number(1), "a lease leaves the record as it is")
        for known in [first, entry.revision] {
            let answer = try await other.save(number(2), for: key, expecting: known)
            guard case .held(let time) = answer, time > .zero, time <= long else {
                throw ConformanceFailure("a leased record is not written by others, who learn how long; not \(answer)")
            }
        }
        let elsewhere = try await other.lease(otherKey, expecting: .none, for: long, writing: nil)
        guard case .granted = elsewhere else { throw ConformanceFailure("a lease holds one record alone") }
    }

    private func letsTheHolderWrite() async throws {
        let (one, other) = try await pair()
        let first = try await one.replace(number(1), for: key)
        let lease = try await granted(by: one, expecting: first, writing: journalled(1))
        let seen = try await other.load(key)
        try promise(seen == TokenEntry(token: journalled(1), revision: lease.revision), "the journal is in the store")
        guard case .granted(let next) = try await one.save(journalled(7), under: lease) else {
            throw ConformanceFailure("the holder writes under its lease")
        }
        try promise(next.revision > lease.revision, "what the holder writes raises the revision")
        guard case .held = try await other.lease(key, expecting: next.revision, for: long, writing: nil) else {
            throw ConformanceFailure("a write leaves the lease to its holder")
        }
        guard case .saved(let revision) = try await one.commit(number(2), under: next) else {
            throw ConformanceFailure("the holder commits")
        }
        try promise(revision > next.revision, "a commit raises the revision")
        let committed = try await other.load(key)
        try promise(committed == TokenEntry(token: number(2), revision: revision), "what was committed is stored")
        let late = try await one.commit(number(3), under: next)
        try promise(late == .changed(committed), "a lease ends with its commit")
        let again = try await granted(by: other, expecting: revision)
        guard case .saved(let removal) = try await other.commit(nil, under: again) else {
            throw ConformanceFailure("the holder removes the record")
        }
        let left = try await one.load(key)
        try promise(left == TokenEntry(token: nil, revision: removal), "a record that its holder removed is gone")
    }

    private func endsALeaseByItself() async throws {
        let (one, other) = try await pair()
        let first = try await one.replace(number(1), for: key)
        let lease = try await granted(by: one, expecting: first, for: briefly, writing: journalled(1))
        try await Task.sleep(for: briefly * 2)
        let stale = try await other.lease(key, expecting: first, for: long, writing: nil)
        let journal = TokenEntry(token: journalled(1), revision: lease.revision)
        try promise(stale == .changed(journal), "the successor sees the journal before it gets the lease")
        let taken = try await granted(by: other, expecting: lease.revision)
        try promise(taken.revision > lease.revision, "a lease that is taken over raises the revision")
        let after = TokenEntry(token: journalled(1), revision: taken.revision)
        let late = try await one.commit(number(2), under: lease)
        try promise(late == .changed(after), "the earlier holder's commit fails")
        let journalledLate = try await one.save(number(2), under: lease)
        try promise(journalledLate == .changed(after), "the earlier holder writes nothing")
        let prolonged = try await one.prolong(lease, for: long)
        try promise(prolonged == .changed(after), "the earlier holder cannot prolong")
        try await one.release(lease)
        guard case .held = try await one.lease(key, expecting: taken.revision, for: long, writing: nil) else {
            throw ConformanceFailure("the earlier holder cannot release the lease of another one")
        }
        guard case .saved = try await other.commit(number(2), under: taken) else {
            throw ConformanceFailure("the successor commits")
        }
    }

    private func prolongsALease() async throws {
        let (one, other) = try await pair()
        let first = try await one.replace(number(1), for: key)
        let lease = try await granted(by: one, expecting: first, for: briefly)
        let prolonged = try await one.prolong(lease, for: long)
        try promise(prolonged == .granted(lease), "a prolonged lease keeps its revision")
        try await Task.sleep(for: briefly * 2)
        guard case .held = try await other.lease(key, expecting: lease.revision, for: long, writing: nil) else {
            throw ConformanceFailure("a prolonged lease lasts")
        }
    }

    private func releasesALease() async throws {
        let (one, other) = try await pair()
        let first = try await one.replace(number(1), for: key)
        let lease = try await granted(by: one, expecting: first)
        try await one.release(lease)
        let entry = try await other.load(key)
        try promise(entry == TokenEntry(token: number(1), revision: lease.revision), "a release changes no record")
        _ = try await granted(by: other, expecting: lease.revision)
    }

    private func letsAnOperatorEndALease() async throws {
        for replacement: StoredToken? in [number(5), nil] {
            let (one, other) = try await pair()
            let first = try await one.replace(number(1), for: key)
            let lease = try await granted(by: one, expecting: first, writing: journalled(1))
            let revision = try await other.replace(replacement, for: key)
            try promise(revision > lease.revision, "an operator raises the revision of a leased record")
            let entry = TokenEntry(token: replacement, revision: revision)
            let answer = try await one.commit(number(2), under: lease)
            try promise(answer == .changed(entry), "an operator beats the holder of the lease")
            let stored = try await one.load(key)
            try promise(stored == entry, "what an operator wrote stays")
            _ = try await granted(by: one, expecting: revision)
        }
    }

    private func leasesWhatWasNeverWritten() async throws {
        let (one, other) = try await pair()
        let lease = try await granted(by: one, expecting: .none)
        let entry = try await other.load(key)
        try promise(entry.token == nil, "a lease makes no record")
        guard case .held = try await other.lease(key, expecting: .none, for: long, writing: nil) else {
            throw ConformanceFailure("a record that was never written is leased like any other")
        }
        guard case .saved = try await one.commit(number(1), under: lease) else {
            throw ConformanceFailure("the first record is committed under a lease")
        }
        let stored = try await other.load(key)
        try promise(stored.token == number(1), "the first record is stored")
    }
}
