import GatewayCore
import GatewayTokens

/// Finds the keeper of a token by the name that an operator or a login gives: `box`, or `app-user[42]` for a subject.
struct KeeperLookup {
    let plan: Plan
    let sources: CredentialSources

    /// The keeper of the token, or why there is none.
    func keeper(of credential: String) -> Result<TokenKeeper, GatewayProblem> {
        if let index = plan.credentials.firstIndex(where: { $0.name == credential }) {
            return sources.keeper(of: index).map { .success($0) } ?? .failure(withoutToken(credential, index))
        }
        guard let (keepers, subject) = member(named: credential) else { return .failure(unknown(credential)) }
        return keepers.keeper(for: subject, by: .operator)
    }

    /// Reads `app-user[42]`, whether or not a request has named that subject yet.
    func member(named name: String) -> (PerSubjectKeepers, subject: String)? {
        guard let open = name.firstIndex(of: "["), name.last == "]" else { return nil }
        guard let keepers = sources.perSubjectKeepers.values.first(where: { $0.name == name[..<open] }) else {
            return nil
        }
        return (keepers, String(name[name.index(after: open)...].dropLast()))
    }

    /// Reads a name that means no single token: `app-user`, which stands for its tokens for every subject, or `openai`, which has none.
    func whole(named name: String) -> WholeCredential? {
        sources.perSubjectKeepers.values.first { $0.name == name }.map { .perSubject($0) }
            ?? sources.fixed(named: name).map { .fixed($0) }
    }

    /// The names under which the token of this keeper is known.
    func names(of keeper: TokenKeeper) -> [String] {
        if sources.perSubjectKeepers.values.contains(where: { $0.name == keeper.perSubjectCredential }) {
            return [keeper.name]
        }
        return plan.credentials.indices.filter { index in
            sources.keeper(of: index) === keeper
        }.map { plan.credentials[$0].name }
    }

    /// Why a credential that there is has no token of its own.
    private func withoutToken(_ name: String, _ index: Int) -> GatewayProblem {
        guard let keepers = sources.perSubjectKeepers[index] else {
            guard sources.sources[index] != nil else {
                return GatewayProblem(.noRoute, "The credential \(name) injects nothing, so it cannot be locked.")
            }
            let detail =
                "The credential \(name) is static: its secret is sent as it is configured, so there is no token to "
                + "renew, revoke or print. It can be locked and unlocked."
            return GatewayProblem(.noRoute, detail)
        }
        let detail =
            switch keepers.naming {
            case .field(let field):
                "The credential \(name) has a token for each subject that \(field) names: \(name)[SUBJECT]."
            case .challenge:
                "The credential \(name) has a token for each scope that an upstream asks for; token list shows them."
            }
        return GatewayProblem(.noRoute, detail)
    }

    private func unknown(_ name: String) -> GatewayProblem {
        let names = plan.credentials.indices.filter {
            sources.sources[$0] != nil || sources.perSubjectKeepers[$0] != nil
        }.map {
            plan.credentials[$0].name
        }
        let known =
            names.isEmpty
            ? "the configuration has no credential" : "the configuration has \(names.joined(separator: ", "))"
        let hint = Suggestion.hint(for: name, in: names)
        return GatewayProblem(
            .noRoute,
            "There is no credential \(LogText.clean(name))\(hint.isEmpty ? "; \(known)." : hint)"
        )
    }
}
