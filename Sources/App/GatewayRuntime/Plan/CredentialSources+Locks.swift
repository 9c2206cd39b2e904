import GatewayCore
import GatewayTokenKeeper

extension CredentialSources {
    /// Locks and unlocks the new sources as `locks` says by now.
    ///
    /// - Parameter credentials: What these sources were made of.
    /// - Returns: Those that were locked and may be in use.
    func follow(
        _ locks: CredentialLocks,
        as credentials: [CredentialPlan],
        newSince previous: CredentialSources
    ) -> [any CredentialSource] {
        let names = self.names(in: credentials)
        for keeper in keepers(notIn: previous) {
            locks.decide(names[ObjectIdentifier(keeper)] ?? []) { $0 ? keeper.lock() : keeper.unlock() }
        }
        for keepers in perSubjectKeepers(notIn: previous) { keepers.follow(locks) }
        // Those that were kept, too: a locked credential may share their secret since.
        return fixed.filter { $0.follow(locks) }.map(\.source)
    }

    /// Locks and unlocks the sources of these names, as `locks` says by now. Those that are as they should be are left alone.
    ///
    /// - Parameter credentials: What these sources were made of.
    /// - Returns: Those that were locked.
    func follow(
        _ locks: CredentialLocks,
        as credentials: [CredentialPlan],
        changed names: Set<String>
    ) -> [any CredentialSource] {
        var locked: [any CredentialSource] = []
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
        for credential in fixed where !names.isDisjoint(with: credential.names) {
            if credential.follow(locks) { locked.append(credential.source) }
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
