import GatewayCore
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

    /// Hands out none of their tokens from now on; their stores forget them when the orders are carried out.
    @discardableResult
    func dropDescendants() -> [OperatorCommand] {
        descendants.map { child in
            let order = OperatorCommand(.drop)
            child.decide { $0.clear() }
            if child.enqueue(order) { child.doorbell.ring() } else { order.finish(.failure(child.busyProblem)) }
            return order
        }
    }

    /// Drops them on behalf of an operator, who waits for the end of it.
    func dropDescendantsForOperator() {
        let orders = dropDescendants()
        drops.withLock { $0 = orders }
    }

    private func takeDrops() -> [OperatorCommand] {
        drops.withLock { orders in
            defer { orders = [] }
            return orders
        }
    }

    /// Waits until nothing is left of what the operation that ended with `outcome` has dropped.
    func settled(_ outcome: OperatorCommand.Outcome) async -> OperatorCommand.Outcome {
        var outcome = outcome
        for order in takeDrops() {
            guard case .failure(let problem) = await end(of: order), case .success = outcome else { continue }
            outcome = .failure(problem)
        }
        return outcome
    }

    /// Carries out what was dropped while the keepers do not run.
    func dropAlone() async {
        for child in descendants {
            var worker = TokenRenewer(setup: child.setup)
            while let order = child.nextOrder() { await child.carryOut(order, &worker) }
        }
    }
}
