import GatewayCore
import GatewayTokens

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
            locks.decide(names[ObjectIdentifier(keeper)] ?? []) { keeper.change(isLocked: $0) }
        }
        for keepers in perSubjectKeepers(notIn: previous) { keepers.follow(locks) }
        // Those that were kept, too: a locked credential may share their secret since.
        return followFixed(locks)
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
            follow(locks, own, keeper, &locked)
        }
        for members in perSubjectKeepers.values {
            if names.contains(members.name) { locks.decide([members.name]) { members.change(isLocked: $0) } }
            for keeper in members.keepers where !names.isDisjoint(with: [members.name, keeper.name]) {
                follow(locks, [members.name, keeper.name], keeper, &locked)
            }
        }
        return locked + followFixed(locks, named: names)
    }

    private func follow(
        _ locks: CredentialLocks,
        _ names: [String],
        _ keeper: TokenKeeper,
        _ locked: inout [any CredentialSource]
    ) {
        locks.decide(names) { isLocked in
            let rest = keeper.follow(isLocked: isLocked)
            if rest != nil, isLocked { locked.append(keeper) }
            return rest
        }
    }

    /// Locks and unlocks static credentials as `locks` says by now. What shares a secret shares its lock.
    ///
    /// - Parameters:
    ///   - changed: With one of these names in the group; nil for all.
    ///   - previous: Leaves its sources alone.
    /// - Returns: Those that were locked and were not before.
    func followFixed(
        _ locks: CredentialLocks,
        named changed: Set<String>? = nil,
        newSince previous: CredentialSources? = nil
    ) -> [any CredentialSource] {
        var locked: [any CredentialSource] = []
        for group in fixedGroups {
            guard let names = group.first.map({ fixed[$0].sharing }) else { continue }
            if let changed, changed.isDisjoint(with: names) { continue }
            let members = group.map { fixed[$0].source }.filter { previous?.fixed(named: $0.name)?.source !== $0 }
            locks.decide(names) { isLocked in
                for source in members {
                    if !isLocked {
                        source.unlock()
                    } else if source.lock() {
                        locked.append(source)
                    }
                }
                return nil
            }
        }
        return locked
    }

    /// Locks what has the secret of a credential that is locked in `previous`: a reload that renames a credential does not unlock its
    /// secret.
    ///
    /// - Returns: The names that were not locked before.
    func holdLockedSecrets(in locks: CredentialLocks, of previous: CredentialSources) -> [String] {
        let secrets = Set(previous.fixed.filter { $0.source.isLocked }.map { $0.secret })
        let names = fixed.filter { secrets.contains($0.secret) && !locks.contains($0.name) }.map { $0.name }
        for name in names { locks.hold(name) }
        return names
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
