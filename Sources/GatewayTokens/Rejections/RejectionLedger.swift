package import GatewayHTTP

/// Decides which rejections of a token cause its renewal. One for each credential.
///
///     401, token 1 ──▶ counts ──▶ token 2 ──▶ 401 ──▶ suppressed ──10 s──▶ counts ──▶ token 3 ──▶ 401 ──▶ suppressed ──20 s──▶
///
/// A path may answer 401 to every token. Each of its responses looks like the revocation of the token, and only the next
/// token tells the difference. So a rejection that counts begins a pause for its route, method and path template. Within the
/// pause, rejections of newer tokens are not taken for a revocation. After it, one rejection counts again as a probe, and each
/// probe doubles the pause. A template that has had a 2xx under the rejected generation always counts: the token has worked
/// there.
///
/// - The pause goes on when the token changes for another reason. Otherwise a path would cause a renewal after each ordinary
///   one, and two such paths would end each other's pauses without end.
/// - The pause begins with the rejection that counts, not only with the second rejection. A client that leaves before that
///   one, or whose content was too long to be held, has no other renewal either.
/// - The pause ends when the newer token is accepted there: the older one was invalid, as it said.
/// - All that counts is paid for by the client whose request it was. That bounds what a client can cause with ever new paths,
///   or with a path that answers 2xx and 401 in turn. A client that has spent its budget takes nothing from others: a probe
///   that it could not pay for is left to them.
/// - A token that lived for a minute and was accepted there is renewed at no client's expense, once per half of its life for the whole
///   credential: it was revoked, and a single client may meet all revocations. The next one waits longer until the same request was
///   accepted with the newer token. If that is rejected as well, the client pays after all, and on this path no further one is free.
/// - The client that paid gets it back if the authorization server was not asked for it: another gateway had renewed the token, an operator
///   had brought one, or a renewal was under way. Servers that end the older token with each renewal would use up a budget otherwise.
/// - A rejection of a generation that is known to be replaced or rejected causes nothing, so it counts and costs nothing: the
///   request is sent again with the newer token.
package struct RejectionLedger: Sendable {
    package struct Key: Hashable, Sendable {
        package var route: Int
        package var template: PathTemplate

        package init(route: Int, template: PathTemplate) {
            self.route = route
            self.template = template
        }

        /// - Parameters:
        ///   - route: Its number. Templates of different routes are different ones.
        ///   - bytes: The head of the request.
        ///   - seed: Random, so that no client can compute two paths with one template.
        package init(
            _ route: Int,
            _ head: borrowing RequestHead,
            _ bytes: borrowing Span<UInt8>,
            seed: UInt64
        ) {
            let seed = seed &+ UInt64(truncatingIfNeeded: route) &* 0x9E37_79B9_7F4A_7C15
            self.init(route: route, template: PathTemplate(bytes, method: head.method, path: head.path, seed: seed))
        }
    }

    package enum RejectionDecision: Hashable, Sendable {
        /// Tell the source that the token was rejected, and send the request again.
        case counts
        /// Pass the response: this path has rejected newer tokens, too.
        case suppressed
        /// Pass the response: the client has caused as many renewals as it may. It may cause the next one then.
        case overBudget(until: MonotonicTime)
    }

    package struct Rules: Hashable, Sendable {
        /// The pause between a rejection and the first probe.
        package var firstPause: Duration = .seconds(10)
        var maximumPause: Duration = .seconds(600)
        /// Templates that are remembered.
        var maximumTemplates = 256
        /// Renewals that a client can cause at once.
        var renewalsPerClient = 12
        /// A client may cause one more after this time. With 12 at once, a client causes at most 24 in the first hour
        /// and 12 in each later hour. A credential may make 60 calls an hour.
        var renewalInterval: Duration = .seconds(300)
        /// How long a token has to live for its renewal to be free.
        var freeLife: Duration = .seconds(60)
        /// From one that is free to the next, whatever the token's life: a path that answers 200, 401, 200 must not buy renewals that a
        /// credential's calls of an hour, or the authorization server, would pay for.
        var freeInterval: Duration = .seconds(300)
        /// How long none is free after one of which is not known that it was a revocation.
        var freePause: Duration = .seconds(600)
        /// Clients whose budget is remembered.
        var maximumClients = 1024

        package init() {}
    }

    private struct Entry {
        /// The one whose rejection counted, or that was rejected again.
        var generation: Int
        var pause: Duration
        var probeAt: MonotonicTime
        /// A rejection has counted, and the newer token has not been rejected yet.
        var awaitsOutcome: Bool
    }

    private struct Payment {
        let generation: Int
        let client: String?
        /// When the next one is free again if this one is given back; nil where the client has paid.
        var freeAgainAt: MonotonicTime?
    }

    /// A renewal that was charged to no client's budget.
    private struct FreeRenewal {
        let key: Key
        let generation: Int
        let client: String?
        /// When the next one is free if the newer token is accepted.
        let nextAt: MonotonicTime
    }

    private let rules: Rules
    private var entries: [Key: Entry] = [:]
    private var budgets: ClientBudgets
    /// The newest generation that is known.
    private var newest = Int.min
    /// The newest generation whose rejection has counted.
    private var rejected = Int.min
    /// For ``rejected``, while it is not known whether the authority is asked because of it.
    private var payment: Payment?
    /// The first time that ``newest`` was seen.
    private var newestSince: MonotonicTime?
    /// When a renewal may be free again.
    private var freeAt: MonotonicTime?
    /// The last renewal that was free, until the same request has been answered with the newer token.
    private var freeRenewal: FreeRenewal?

    package init(_ rules: Rules = Rules()) {
        self.rules = rules
        budgets = ClientBudgets(
            burst: rules.renewalsPerClient,
            interval: rules.renewalInterval,
            maximumClients: rules.maximumClients
        )
    }

    /// The upstream has rejected a token.
    ///
    /// - Parameters:
    ///   - generation: The generation of the token that the request carried.
    ///   - client: nil for all clients without a name together.
    ///   - isConfirmed: The template has had a 2xx under this generation.
    package mutating func decision(
        for key: Key,
        generation: Int,
        client: String?,
        isConfirmed: Bool,
        at now: MonotonicTime
    ) -> RejectionDecision {
        defer { checkInvariants() }
        learn(of: generation, at: now)
        guard generation == newest, generation > rejected else { return .counts }
        let earlier = remembered(key, at: now)
        var pause = rules.firstPause
        // A path that has accepted the token starts again with the first pause.
        if !isConfirmed, let earlier {
            guard now >= earlier.probeAt else { return .suppressed }
            pause = min(earlier.pause * 2, rules.maximumPause)
        }
        let isRevoked = isConfirmed && earlier?.awaitsOutcome != false
        guard pay(for: generation, key, client, isRevoked: isRevoked, at: now) else {
            let fills = budgets.fillsAt(of: client) ?? now
            return .overBudget(until: isRevoked ? min(fills, nextFree(at: now)) : fills)
        }
        rejected = generation
        let entry = Entry(generation: generation, pause: pause, probeAt: now + pause, awaitsOutcome: true)
        remember(key, entry)
        return .counts
    }

    /// - Parameter isRevoked: The path has accepted this token, and has not rejected a newer one.
    /// - Returns: Whether the renewal is free or the client has paid for it.
    private mutating func pay(
        for generation: Int,
        _ key: Key,
        _ client: String?,
        isRevoked: Bool,
        at now: MonotonicTime
    ) -> Bool {
        if isRevoked, let newestSince, nextFree(at: now) <= now {
            payment = Payment(generation: generation, client: client, freeAgainAt: freeAt ?? now)
            let pause = max((now - newestSince) / 2, rules.freeInterval)
            freeRenewal = FreeRenewal(key: key, generation: generation, client: client, nextAt: now + pause)
            // A client that leaves before the second response keeps it from telling.
            freeAt = now + max(pause, rules.freePause)
            return true
        }
        guard budgets.spend(client, at: now) else { return false }
        payment = Payment(generation: generation, client: client)
        return true
    }

    /// When the renewal of the newest token is free, if the token works until then.
    private func nextFree(at now: MonotonicTime) -> MonotonicTime {
        max(freeAt ?? now, (newestSince ?? now) + rules.freeLife)
    }

    private mutating func learn(of generation: Int, at now: MonotonicTime) {
        guard generation > newest else { return }
        (newest, newestSince) = (generation, now)
    }

    /// The request whose rejection counted was sent again with a newer token, of this generation, and got the same response.
    ///
    /// The pause begins anew, once for each rejection that counted: a client that has many requests on their way cannot put off
    /// the next probe without end.
    package mutating func rejectedAgain(_ key: Key, generation: Int, at now: MonotonicTime) {
        defer { checkInvariants(of: key) }
        learn(of: generation, at: now)
        chargeFreeRenewal(key, generation, at: now)
        guard var entry = remembered(key, at: now) else {
            let pause = rules.firstPause
            let entry = Entry(generation: generation, pause: pause, probeAt: now + pause, awaitsOutcome: false)
            return remember(key, entry)
        }
        guard entry.awaitsOutcome, generation > entry.generation else { return }
        entry.awaitsOutcome = false
        entry.generation = generation
        entry.probeAt = now + entry.pause
        entries[key] = entry
    }

    /// The request whose rejection counted was sent again with a newer token, of this generation, and was accepted.
    ///
    /// So the older token was invalid, and the path does not reject every token: its next rejection counts at once.
    package mutating func accepted(_ key: Key, generation: Int, at now: MonotonicTime) {
        defer { checkInvariants() }
        learn(of: generation, at: now)
        if let freeRenewal, freeRenewal.key == key, generation > freeRenewal.generation {
            freeAt = freeRenewal.nextAt
            self.freeRenewal = nil
        }
        guard let entry = entries[key], entry.awaitsOutcome, generation > entry.generation else { return }
        entries[key] = nil
    }

    /// It was no revocation: the path rejects the newer token as well.
    private mutating func chargeFreeRenewal(_ key: Key, _ generation: Int, at now: MonotonicTime) {
        guard let freeRenewal, freeRenewal.key == key, generation > freeRenewal.generation else { return }
        self.freeRenewal = nil
        freeAt = max(freeAt ?? now, now + rules.freePause)
        // One that has nothing left owes nothing: it caused this renewal alone, and the next one is not free.
        _ = budgets.spend(freeRenewal.client, at: now)
    }

    /// There is a token of this generation now.
    package mutating func replaced(by generation: Int, at now: MonotonicTime) { learn(of: generation, at: now) }

    /// The authorization server was asked, or may have been: what was paid is spent.
    package mutating func wasAsked() { payment = nil }

    /// No call follows from a rejection of this generation or an older one, so the client that paid gets it back.
    package mutating func giveBack(upTo generation: Int) {
        guard let paid = payment, paid.generation <= generation else { return }
        payment = nil
        if let freeAgainAt = paid.freeAgainAt {
            (freeAt, freeRenewal) = (freeAgainAt, nil)
        } else {
            budgets.giveBack(to: paid.client)
        }
        checkInvariants()
    }

    /// nil for a template whose probe has been due for so long that the next rejection is like its first.
    private func remembered(_ key: Key, at now: MonotonicTime) -> Entry? {
        guard let entry = entries[key], now < entry.probeAt + rules.maximumPause else { return nil }
        return entry
    }

    /// At the limit, the template whose probe is due first is forgotten. That costs the least: one renewal comes
    /// earlier. Long pauses, which took many probes, are not lost to new templates.
    private mutating func remember(_ key: Key, _ entry: Entry) {
        if entries[key] == nil, entries.count >= rules.maximumTemplates,
            let first = entries.min(by: { $0.value.probeAt < $1.value.probeAt })
        {
            entries[first.key] = nil
        }
        entries[key] = entry
        checkInvariants(of: key)
    }

    /// - Parameter key: The key of an entry that has changed.
    private func checkInvariants(of key: Key? = nil) {
        assert(rejected <= newest, "A generation newer than the newest was rejected.")
        assert(payment.map { $0.generation == rejected } ?? true, "What was paid is for an older rejection.")
        assert(entries.count <= max(1, rules.maximumTemplates), "More templates are remembered than there may be.")
        assert(budgets.count <= max(1, rules.maximumClients), "More clients are remembered than there may be.")
        assert(
            key.flatMap { entries[$0] }.map(isConsistent) ?? true,
            "A pause is out of range, or its generation is unknown."
        )
    }

    private func isConsistent(_ entry: Entry) -> Bool {
        (rules.firstPause...max(rules.firstPause, rules.maximumPause)).contains(entry.pause)
            && entry.generation <= newest
    }

    /// The clients that may cause no renewal now, and when they may again: at most so many.
    func emptyBudgets(at now: MonotonicTime, limit: Int) -> [(client: String?, fillsAt: MonotonicTime)] {
        budgets.empty(at: now, limit: limit)
    }

    var templateCount: Int { entries.count }
    var clientCount: Int { budgets.count }
}

/// A token bucket for each client; those without a name share one.
private struct ClientBudgets: Sendable {
    private let burst: Int
    private let interval: Duration
    private let maximumClients: Int
    /// When the bucket of a client is full again. A client that is not here has a full one.
    private var fullAt: [String?: MonotonicTime] = [:]

    init(burst: Int, interval: Duration, maximumClients: Int) {
        self.burst = burst
        self.interval = interval
        self.maximumClients = maximumClients
    }

    var count: Int { fullAt.count }

    /// - Returns: Whether there was something left; only then it is spent.
    mutating func spend(_ client: String?, at now: MonotonicTime) -> Bool {
        let full = max(fullAt[client] ?? now, now)
        guard full - now <= interval * (burst - 1) else { return false }
        if fullAt[client] == nil { makeRoom(at: now) }
        fullAt[client] = full + interval
        assert(full + interval - now <= interval * burst, "A client has spent more than its bucket holds.")
        assert(fullAt.count <= max(1, maximumClients), "More buckets are kept than there may be.")
        return true
    }

    /// When this client may spend again; not later than `now` while something is left.
    func fillsAt(of client: String?) -> MonotonicTime? {
        fullAt[client].map { $0 + interval * (1 - burst) }
    }

    /// Those that may not spend now, and when they may again; at most so many, the last ones to fill.
    func empty(at now: MonotonicTime, limit: Int) -> [(client: String?, fillsAt: MonotonicTime)] {
        let empty = fullAt.keys.compactMap { client in fillsAt(of: client).map { (client: client, fillsAt: $0) } }
            .filter { $0.fillsAt > now }
        return Array(empty.sorted { ($1.fillsAt, $0.client ?? "") < ($0.fillsAt, $1.client ?? "") }.prefix(limit))
    }

    mutating func giveBack(to client: String?) {
        guard let full = fullAt[client] else { return }
        fullAt[client] = full - interval
    }

    /// A bucket that is full says nothing. If none is, the fullest one is forgotten: no client is refused for what others spent.
    private mutating func makeRoom(at now: MonotonicTime) {
        guard fullAt.count >= maximumClients else { return }
        fullAt = fullAt.filter { $0.value > now }
        guard fullAt.count >= maximumClients, let fullest = fullAt.min(by: { $0.value < $1.value }) else { return }
        fullAt[fullest.key] = nil
    }
}
