extension CredentialPlan {
    /// This plan with a strategy that makes its token from the token of another credential.
    ///
    /// - Parameters:
    ///   - parent: The plan of the other credential. It has a parent itself where its strategy needs one.
    ///   - index: The place of `parent` among the plans.
    ///   - span: Where the configuration names the parent, for problems.
    /// - Returns: nil when no token can be made from the parent's; the reason is reported.
    func derived(
        from parent: CredentialPlan,
        at index: Int,
        _ context: ConfigContext,
        _ span: SourceSpan,
        _ path: ConfigPath
    ) -> CredentialPlan? {
        guard let derived = strategy as? any DerivedStrategy else { return self }
        // Otherwise the parent lacks its own parent, and the reason has been reported.
        guard parent.parent != nil || (parent.strategy as? any DerivedStrategy)?.parent == nil else { return nil }
        func refuse(_ reason: String) -> CredentialPlan? {
            context.error(reason, at: span, path: path)
            return nil
        }
        func refuse(_ grants: any TokenGrants) -> CredentialPlan? {
            refuse("\(parent.name) has a token for each \(grants.keyName); only a single one can be exchanged")
        }
        let grant: any TokenGrant
        switch parent.strategy.behavior {
        case .token(let single): grant = single
        case .tokenPerSubject(let grants):
            return refuse(grants)
        case .tokenPerChallenge(let grants):
            return refuse(grants)
        case .none, .fixed, .onChallenge:
            return refuse("\(parent.strategyKind) has no token that could be exchanged")
        }
        do throws(ParentRefusal) {
            var made = self
            made.strategy = try derived.made(from: grant)
            made.parent = index
            made.definition += parent.definition
            return made
        } catch {
            return refuse(error.message)
        }
    }
}
