import GatewayCore

/// What a store tells of the writes of others, and of the locks that gateways share.
extension TokenStoreConformance {
    func checkChanges() async throws {
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

    func checkLocks() async throws {
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
