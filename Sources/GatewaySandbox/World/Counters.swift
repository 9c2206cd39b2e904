/// What the sandbox has seen since the last reset.
struct Counters: Sendable {
    /// Per authority, grant and client.
    private(set) var tokenCalls: [OriginName: [String: [String: Int]]] = [:]
    private var tokenCallsUnderWay = 0
    /// The most token calls that were under way at one moment: 1 where calls are single flight.
    private(set) var tokenCallsAtOnce = 0
    var requests: [OriginName: Int] = [:]
    var accepted: [OriginName: Int] = [:]
    var rejected: [OriginName: Int] = [:]
    var forbidden: [OriginName: Int] = [:]
    var tokensIssued: [OriginName: Int] = [:]
    /// Uses of a single-use token that had been used before.
    var doubleSpends: [OriginName: Int] = [:]
    var authorizationLeaks = 0
    var uploads = 0
    var uploadedBytes = 0

    /// `grant` and `client` come from the wire: beyond 64 names of each they are counted as `other`.
    mutating func tokenCallBegan(grant: String, client: String, at origin: OriginName) {
        tokenCallsUnderWay += 1
        tokenCallsAtOnce = max(tokenCallsAtOnce, tokenCallsUnderWay)
        var grants = tokenCalls[origin] ?? [:]
        let grant = grants[grant] == nil && grants.count >= 64 ? "other" : grant
        var clients = grants[grant] ?? [:]
        let client = clients[client] == nil && clients.count >= 64 ? "other" : client
        clients[client, default: 0] += 1
        grants[grant] = clients
        tokenCalls[origin] = grants
    }

    mutating func tokenCallEnded() { tokenCallsUnderWay = max(0, tokenCallsUnderWay - 1) }

    /// Starts again at zero; calls under way are still counted down when they end.
    mutating func reset() {
        let underWay = tokenCallsUnderWay
        self = Counters()
        tokenCallsUnderWay = underWay
    }

    var json: [(String, JSON)] {
        let calls = OriginName.allCases.compactMap { origin in tokenCalls[origin].map { (origin, $0) } }
        return [
            ("token_calls", perOrigin(tokenCallTotals)),
            ("token_calls_total", .integer(tokenCallTotals.values.reduce(0, +))),
            ("token_calls_at_once", .integer(tokenCallsAtOnce)),
            ("token_calls_under_way", .integer(tokenCallsUnderWay)),
            (
                "token_calls_by_grant",
                .object(
                    calls.map { origin, grants in
                        let members = grants.sorted { $0.key < $1.key }.map { ($0.key, JSON.counts($0.value)) }
                        return (origin.rawValue, .object(members))
                    }
                )
            ),
            ("tokens_issued", perOrigin(tokensIssued)),
            ("double_spends", perOrigin(doubleSpends)),
            ("requests", perOrigin(requests)),
            ("accepted", perOrigin(accepted)),
            ("rejected_401", perOrigin(rejected)),
            ("forbidden_403", perOrigin(forbidden)),
            ("authorization_leaks", .integer(authorizationLeaks)),
            ("uploads", ["count": .integer(uploads), "bytes": .integer(uploadedBytes)]),
        ]
    }

    private var tokenCallTotals: [OriginName: Int] {
        tokenCalls.mapValues { grants in grants.values.reduce(0) { $0 + $1.values.reduce(0, +) } }
    }

    private func perOrigin(_ counts: [OriginName: Int]) -> JSON {
        .object(OriginName.allCases.map { ($0.rawValue, .integer(counts[$0] ?? 0)) })
    }
}
