import GatewayCore
import GatewayTokenKeeper

extension CredentialSources {
    /// Locks and unlocks the new keepers as `locks` says by now.
    ///
    /// - Parameter credentials: What these sources were made of.
    func follow(_ locks: CredentialLocks, as credentials: [CredentialPlan], newSince previous: CredentialSources) {
        let names = self.names(in: credentials)
        for keeper in keepers(notIn: previous) {
            locks.decide(names[ObjectIdentifier(keeper)] ?? []) { $0 ? keeper.lock() : keeper.unlock() }
        }
        for keepers in perSubjectKeepers(notIn: previous) { keepers.follow(locks) }
    }

    /// Locks and unlocks the keepers of these names, as `locks` says by now. Those that are as they should be are left alone.
    ///
    /// - Parameter credentials: What these sources were made of.
    /// - Returns: Those that were locked.
    func follow(
        _ locks: CredentialLocks,
        as credentials: [CredentialPlan],
        changed names: Set<String>
    ) -> [TokenKeeper] {
        var locked: [TokenKeeper] = []
        let own = self.names(in: credentials)
        for keeper in keepers {
            let own = own[ObjectIdentifier(keeper)] ?? []
            guard !names.isDisjoint(with: own) else { continue }
            locks.decide(own) { if keeper.follow(isLocked: $0) { locked.append(keeper) } }
        }
        for members in perSubjectKeepers.values {
            if names.contains(members.name) { locks.decide([members.name]) { $0 ? members.lock() : members.unlock() } }
            for keeper in members.keepers where !names.isDisjoint(with: [members.name, keeper.name]) {
                locks.decide([members.name, keeper.name]) {
                    if keeper.follow(isLocked: $0) { locked.append(keeper) }
                }
            }
        }
        return locked
    }

    /// The credentials that each keeper serves.
    private func names(in credentials: [CredentialPlan]) -> [ObjectIdentifier: [String]] {
        var names: [ObjectIdentifier: [String]] = [:]
        for index in credentials.indices {
            guard let keeper = keeper(of: index) else { continue }
            names[ObjectIdentifier(keeper), default: []].append(credentials[index].name)
        }
        return names
    }
}
