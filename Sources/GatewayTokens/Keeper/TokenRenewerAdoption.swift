import GatewayEvents
import GatewayHTTP
import Logging

/// What others have written to the store: another token is adopted, and a withdrawal is followed.
extension TokenRenewer {
    /// What became of a change that somebody else has made.
    enum StoreChange {
        /// There is nothing to do.
        case nothing
        case adopted(FreshToken)
        case withdrawn
    }

    /// - Parameter generation: The highest there has been.
    mutating func apply(_ news: TokenEntry, after generation: Int) async -> StoreChange {
        guard news.revision != stored.revision, let entry = await latest(news) else { return .nothing }
        let change = stored.change(to: entry, holding: record)
        switch change {
        case .none:
            stored.load(entry)
            learnOfRevocation()
            learnOfRefusal()
            return .nothing
        case .wentBack:
            await reportLoss(of: entry)
            return .nothing
        case .withdrawn:
            stored.load(entry)
            await withdrawnByOthers()
            return .withdrawn
        case .newer(let token):
            stored.load(entry)
            return .adopted(await adopt(token, after: generation))
        }
    }

    /// News that is older than what the renewer knows was read before the renewer wrote, or the store has lost the rest.
    private mutating func latest(_ news: TokenEntry) async -> TokenEntry? {
        guard news.revision < stored.revision else { return news }
        do throws(TokenStoreError) {
            let entry = try await context.store.load(context.key)
            return entry.revision == stored.revision ? nil : entry
        } catch {
            await report(error, while: "load", generation: record?.generation)
            return nil
        }
    }

    /// A record that was revoked keeps the token of the configuration from being used. One with a token was forgotten here.
    mutating func learnOfRevocation() {
        guard record == nil, let token = stored.seen.token, token.isRevoked else { return }
        replaceRecord(with: token)
    }

    /// The authority has refused the refresh token to another gateway, or an operator there has it sent again.
    private mutating func learnOfRefusal() {
        guard let seen = stored.seen.token, seen.token == record?.token, seen.refusal != record?.refusal else { return }
        amendRecord { ($0.attempt, $0.refusal) = (seen.attempt, seen.refusal) }
        isUncertain = context.isUncertain(record)
    }

    /// A token whose event cannot be recorded is used all the same: the one that is at hand may have been revoked.
    private mutating func adopt(_ token: StoredToken, after generation: Int) async -> FreshToken {
        let (adopted, event) = await adoption(of: token, after: generation, nil)
        await context.note(event)
        return fresh(adopted: adopted)
    }

    /// - Returns: nil when the adopted token is dead and has to be renewed first.
    mutating func use(_ found: StoredToken, after generation: Int, _ trigger: TokenEvent.Trigger) async -> End? {
        let (adopted, event) = await adoption(of: found, after: generation, trigger)
        let isLive = !adopted.isRejected && adopted.token.expiresAt.map { $0 > context.clock.now().wall } ?? true
        guard isLive else {
            await context.note(event)
            return nil
        }
        return await commit(Uncommitted(fresh: fresh(adopted: adopted), event: event))
    }

    private func fresh(adopted record: StoredToken) -> FreshToken {
        var token = fresh(record)
        token.isAdopted = true
        return token
    }

    /// - Returns: The record, and the event that says so.
    private mutating func adoption(
        of found: StoredToken,
        after generation: Int,
        _ trigger: TokenEvent.Trigger?
    ) async -> (StoredToken, TokenEvent) {
        var adopted = found
        // Late rejections of what we held must not hit the adopted one.
        adopted.generation = max(found.generation, generation + 1)
        let dropped = replaceRecord(with: adopted)
        phase = .open
        await noteOvertaken(dropped?.event)
        var event = context.event(.adopted, generation: adopted.generation, trigger: trigger)
        event.expiresAt = adopted.token.expiresAt
        event.token = adopted.token.access
        return (adopted, event)
    }

    /// A sibling that shares the store may have rotated: its token is in the store then.
    mutating func adoptFromStore() async -> StoredToken? {
        do throws(TokenStoreError) {
            let entry = try await context.store.load(context.key)
            let change = stored.change(to: entry, holding: record)
            guard case .newer(let token) = change, token.generation >= record?.generation ?? 0 else { return nil }
            stored.load(entry)
            return token
        } catch {
            await report(error, while: "load", generation: record?.generation)
            return nil
        }
    }

    /// What an operator of another gateway, or the authority through it, has taken away.
    mutating func withdrawnByOthers() async {
        let generation = record?.generation
        let dropped = replaceRecord(with: stored.seen.token)
        // The configuration may have a token, unless the record says that it was revoked.
        phase = record == nil ? .closed : .open
        await noteOvertaken(dropped?.event)
        var event = context.event(.cleared, generation: generation)
        event.detail = ["from": "store"]
        await context.note(event)
    }

    /// A token was obtained and not used: another one took its place, or an operator took it away.
    func noteOvertaken(_ event: TokenEvent?) async {
        guard var event else { return }
        event.outcome = .failed
        event.errorCode = ProblemKind.tokenTemporarilyUnavailable.rawValue
        event.detail["reason"] = "overtaken"
        await context.note(event)
    }

    private mutating func reportLoss(of entry: TokenEntry) async {
        stored.load(entry)
        context.logger.error(
            "The token store holds an earlier record than before; the later token is stored again",
            metadata: ["gateway.credential": "\(context.name)"]
        )
        var event = context.event(.storeFailed, generation: record?.generation)
        event.outcome = .failed
        event.detail = ["operation": "load", "reason": "went_back"]
        await context.note(event)
        await save()
    }
}
