import Synchronization

/// A keeper whose token is made from that of another one, which does not keep it alive.
struct Child: Sendable {
    weak var keeper: TokenKeeper?
}

/// Forgetting what was made from a token, as soon as the token itself is forgotten.
extension TokenKeeper {
    /// From now on the token of `child` ends when this token is revoked, cleared or refused for good. It also ends
    /// when a person replaces this token, because the new token may belong to another account.
    package func adopt(_ child: TokenKeeper) {
        children.withLock { children in
            children.removeAll { $0.keeper == nil }
            children.append(Child(keeper: child))
        }
    }

    /// Those whose tokens are made from this one, and from theirs.
    var descendants: [TokenKeeper] {
        children.withLock { $0.compactMap(\.keeper) }.flatMap { [$0] + $0.descendants }
    }

    /// Hands out none of their tokens from now on; their stores forget them when the commands are carried out.
    @discardableResult
    func dropDescendants() -> [OperatorCommand] {
        descendants.map { child in
            let command = OperatorCommand(.drop)
            child.decide { $0.clear() }
            if child.enqueue(command) { child.wake(.command) } else { command.finish(.failure(child.busyProblem)) }
            return command
        }
    }

    /// Drops them on behalf of an operator, who waits for the end of it.
    func dropDescendantsForOperator() {
        let commands = dropDescendants()
        drops.withLock { $0 += commands }
    }

    /// Those of the command that is carried out.
    func takeDrops() -> [OperatorCommand] {
        drops.withLock { commands in
            defer { commands = [] }
            return commands
        }
    }

    /// Waits until nothing is left of what the command has dropped.
    func settled(_ completion: OperatorCommand.Completion) async -> OperatorCommand.Outcome {
        var outcome = completion.outcome
        for command in completion.drops {
            guard case .failure(let problem) = await end(of: command).outcome, case .success = outcome else { continue }
            outcome = .failure(problem)
        }
        return outcome
    }

    /// Carries out what was dropped while the keepers do not run.
    func dropAlone() async {
        for child in descendants {
            var renewer = TokenRenewer(context: child.context)
            while let command = child.nextCommand() { await child.carryOut(command, &renewer) }
        }
    }
}
