package import GatewayHTTP

/// What upstreams have said of a static credential, and whether somebody has to replace it.
///
///     401 ×5, on 2 paths        → rejected
///     401 ×4, 200, 401 ×4       → not: an acceptance ends the run
///
/// It is a report alone: a credential that is called rejected is sent all the same, since one answer can show that it works.
///
/// - A run is judged for each client. While another client was accepted lately and has no such run itself, the run says
///   something about the client and not about the credential. An acceptance ends the runs of all clients.
/// - A path may answer 401 to everybody, so a run needs two path templates, or one that was accepted before, or all that there are:
///   those of the run and those that were accepted.
/// - A 403 often means that the credential works and lacks a right. It counts only while nothing was accepted.
package struct AcceptanceLedger: Sendable {
    package struct Rules: Hashable, Sendable {
        /// Rejections in a row.
        package var rejections = 5
        /// Path templates among them.
        package var templates = 2
        /// How long the acceptance of another client counts.
        var vouching: Duration = .seconds(600)
        /// Clients that are remembered.
        var maximumClients = 256

        package init() {}
    }

    /// Why the credential is called rejected.
    package struct Verdict: Hashable, Sendable {
        /// The client whose requests were rejected; nil for clients without a name.
        package let client: String?
        package let rejections: Int
        /// When the first of them was.
        package let since: MonotonicTime
        /// The status of the last rejection.
        package let status: Int
    }

    private struct Run {
        var rejections = 0
        /// The path templates that rejected, at most as many as a run needs.
        var templates: Set<RejectionLedger.Key> = []
        let begunAt: MonotonicTime
        var status = 0
    }

    private struct Client {
        var acceptedAt: MonotonicTime?
        /// The rejections since the last acceptance of any client.
        var run: Run?
        var seenAt: MonotonicTime
    }

    private let rules: Rules
    private var clients: [String?: Client] = [:]
    /// How many of them have a run.
    private var runs = 0
    /// The path templates that accepted, at most as many as a run needs.
    private var accepted: Set<RejectionLedger.Key> = []
    package private(set) var acceptedAt: MonotonicTime?
    package private(set) var rejectedAt: MonotonicTime?

    package init(_ rules: Rules = Rules()) { self.rules = rules }

    /// Some client has a run: the next acceptance ends it.
    var hasRun: Bool { runs > 0 }
    /// Whether one more template that is accepted makes a difference.
    var wantsTemplates: Bool { accepted.count < rules.templates }

    /// - Parameter template: nil where it is known to have been accepted, or makes no difference.
    package mutating func accept(_ client: String?, _ template: RejectionLedger.Key?, at now: MonotonicTime) {
        acceptedAt = max(acceptedAt ?? now, now)
        if let template, wantsTemplates { accepted.insert(template) }
        if hasRun { for name in Array(clients.keys) { clients[name]?.run = nil } }
        runs = 0
        makeRoom(for: client)
        clients[client, default: Client(seenAt: now)].acceptedAt = now
        clients[client]?.seenAt = now
        checkInvariants()
    }

    /// - Parameter status: 401 or 403; another one only if the upstream says that the credential is the reason.
    package mutating func reject(
        _ client: String?,
        _ template: RejectionLedger.Key,
        status: Int,
        at now: MonotonicTime
    ) {
        guard status != 403 || acceptedAt == nil else { return }
        rejectedAt = max(rejectedAt ?? now, now)
        makeRoom(for: client)
        if clients[client]?.run == nil { runs += 1 }
        var run = clients[client]?.run ?? Run(begunAt: now)
        run.rejections += 1
        run.status = status
        if run.templates.count < rules.templates { run.templates.insert(template) }
        clients[client, default: Client(seenAt: now)].run = run
        clients[client]?.seenAt = now
        checkInvariants()
    }

    /// nil where nothing speaks against the credential, or only the requests of one client among others do.
    package func verdict(at now: MonotonicTime) -> Verdict? {
        let isVouchedFor = clients.values.contains { client in
            guard let acceptedAt = client.acceptedAt, now - acceptedAt < rules.vouching else { return false }
            // A client with some rejections meets paths that reject everybody. It vouches unless it has a run of its own.
            return (client.run?.rejections ?? 0) < rules.rejections
        }
        guard !isVouchedFor else { return nil }
        return clients.compactMap { name, client in
            client.run.flatMap { run in
                guard isLongEnough(run) else { return nil }
                return Verdict(client: name, rejections: run.rejections, since: run.begunAt, status: run.status)
            }
        }.min { ($0.since, $0.client ?? "") < ($1.since, $1.client ?? "") }
    }

    private func isLongEnough(_ run: Run) -> Bool {
        let needed = min(rules.templates, accepted.union(run.templates).count)
        let isBroad = run.templates.count >= needed || !run.templates.isDisjoint(with: accepted)
        return run.rejections >= rules.rejections && isBroad
    }

    /// At the limit, the client is forgotten that was seen first; one with a run only if all have one.
    private mutating func makeRoom(for client: String?) {
        guard clients[client] == nil, clients.count >= rules.maximumClients else { return }
        let quiet = clients.filter { $0.value.run == nil }
        let oldest = (quiet.isEmpty ? clients : quiet).min { $0.value.seenAt < $1.value.seenAt }
        guard let oldest else { return }
        if oldest.value.run != nil { runs -= 1 }
        clients[oldest.key] = nil
    }

    private func checkInvariants() {
        assert(clients.count <= max(1, rules.maximumClients), "More clients are remembered than there may be.")
        assert(runs >= 0 && runs <= clients.count, "Runs are counted that no client has.")
        assert(accepted.count <= rules.templates, "More templates are remembered than a run needs.")
    }
}
