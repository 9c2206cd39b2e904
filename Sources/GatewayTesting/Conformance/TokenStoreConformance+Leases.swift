import GatewayCore

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

    func checkRevisions() async throws {
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

    func checkLeases() async throws {
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
