import GatewayConfiguration
import GatewayProxy
import GatewayTokens

/// What a reload does, or would do, to one thing of the configuration.
package struct PlanChange: Hashable, Sendable, Codable {
    package enum Kind: String, Sendable, Codable {
        case added
        case changed
        case kept
        case dropped
    }

    package var kind: Kind
    /// As the configuration spells it, for example `routes.box`.
    package var path: String
    /// `upstream: https://a -> https://b`; no secrets.
    package var notes: [String]
    /// It cannot be changed while the gateway runs.
    var needsRestart: Bool

    /// In the order of the configuration.
    package static func between(_ old: PlanDigest, _ new: PlanDigest) -> [PlanChange] {
        var changes = frame(old, new)
        compare(
            "credentials.",
            items(old, "credentials", \.credentials),
            items(new, "credentials", \.credentials),
            to: &changes
        )
        compare("routes.", items(old, "routes", \.routes), items(new, "routes", \.routes), to: &changes)
        return changes
    }

    /// The same list, for two plans of one process.
    ///
    /// What a credential or a route shows takes longer to make than what it is defined with. It is made only of those that differ.
    ///
    /// - Parameter mark: See ``PlanDefinitions/digest(_:)``.
    static func between(_ old: Plan, _ new: Plan, mark: ([UInt8]) -> String) -> [PlanChange] {
        var changes = frame(
            PlanDefinitions(frameOf: old).digest(mark),
            PlanDefinitions(frameOf: new).digest(mark)
        )
        compare("credentials.", credentials(old), credentials(new), to: &changes)
        compare("routes.", routes(old), routes(new), to: &changes)
        return changes
    }

    /// What changes beside credentials and routes.
    private static func frame(_ old: PlanDigest, _ new: PlanDigest) -> [PlanChange] {
        var changes: [PlanChange] = []
        compare("", settings(old), settings(new), to: &changes)
        compare(
            "listeners.proxy.",
            items(old, "listeners.proxy", \.listeners),
            items(new, "listeners.proxy", \.listeners),
            to: &changes
        )
        compare("listeners.authz.", engines(old), engines(new), to: &changes)
        compare("listeners.admin.users.", users(old), users(new), to: &changes)
        compare("access.clients.", clients(old), clients(new), to: &changes)
        return changes
    }

    private static func compare<Thing: Comparand>(
        _ prefix: String,
        _ old: [Thing],
        _ new: [Thing],
        to changes: inout [PlanChange]
    ) {
        // Listeners that ask for any free port have one name: the first is compared with the first.
        var before: [String: ArraySlice<Thing>] = [:]
        for thing in old { before[thing.name, default: []].append(thing) }
        changes.reserveCapacity(changes.count + new.count)
        for thing in new {
            let path = prefix + thing.name
            guard let earlier = before[thing.name]?.popFirst() else {
                changes.append(PlanChange(kind: .added, path: path, notes: [], needsRestart: thing.isFixed))
                continue
            }
            let notes = thing.notes(since: earlier)
            let kind: Kind = notes.isEmpty ? .kept : .changed
            changes.append(
                PlanChange(kind: kind, path: path, notes: notes, needsRestart: kind == .changed && thing.isFixed)
            )
        }
        for thing in old where before[thing.name]?.popFirst() != nil {
            let path = prefix + thing.name
            changes.append(PlanChange(kind: .dropped, path: path, notes: [], needsRestart: thing.isFixed))
        }
    }

    // MARK: Comparison

    /// Something with a name, in one of two plans.
    private protocol Comparand {
        var name: String { get }
        /// Whether it is decided once, when the gateway starts.
        var isFixed: Bool { get }

        /// How it differs from what had its name before; empty if it is the same.
        func notes(since earlier: Self) -> [String]
    }

    private struct Item: Comparand {
        let name: String
        var facts: [PlanSummary.Fact]
        var mark: String?
        /// It is decided once, when the gateway starts.
        var isFixed = false

        func notes(since earlier: Item) -> [String] {
            PlanChange.notes(from: earlier.facts, to: facts, isSameOtherwise: earlier.mark == mark)
        }
    }

    private struct RouteItem: Comparand {
        let route: RoutePlan
        let credential: String?

        var name: String { route.name }

        func notes(since earlier: RouteItem) -> [String] {
            let isSame = earlier.route.definitionBytes == route.definitionBytes
            if isSame, earlier.credential == credential { return [] }
            return PlanChange.notes(from: earlier.facts, to: facts, isSameOtherwise: isSame)
        }

        var isFixed: Bool { false }

        private var facts: [PlanSummary.Fact] { PlanSummary.Route(route, credential: credential).facts }
    }

    private struct CredentialItem: Comparand {
        let credential: CredentialPlan
        let shown: PlanSummary.Credential.Shown

        var name: String { credential.name }

        func notes(since earlier: CredentialItem) -> [String] {
            let isSame = earlier.credential.definitionBytes == credential.definitionBytes
            if isSame, earlier.shown == shown { return [] }
            return PlanChange.notes(from: earlier.facts, to: facts, isSameOtherwise: isSame)
        }

        var isFixed: Bool { false }

        private var facts: [PlanSummary.Fact] { PlanSummary.Credential(shown).facts }
    }

    private static func routes(_ plan: Plan) -> [RouteItem] {
        plan.routes.map { route in
            RouteItem(route: route, credential: route.credential.map { plan.credentials[$0].name })
        }
    }

    private static func credentials(_ plan: Plan) -> [CredentialItem] {
        let routes = plan.routeNamesByCredential
        return plan.credentials.enumerated().map { index, credential in
            let shown = PlanSummary.Credential.Shown(credential, in: plan, routes: routes[index] ?? [])
            return CredentialItem(credential: credential, shown: shown)
        }
    }

    /// - Parameter isSameOtherwise: Whether what is not shown is the same.
    private static func notes(
        from old: [PlanSummary.Fact],
        to new: [PlanSummary.Fact],
        isSameOtherwise: Bool
    ) -> [String] {
        let before = grouped(old)
        let after = grouped(new)
        let keys = (old + new).map(\.key)
        var seen: Set<String> = []
        let notes = keys.filter { seen.insert($0).inserted && before[$0] != after[$0] }.map { key in
            let (from, to) = (before[key] ?? "nothing", after[key] ?? "nothing")
            return key.isEmpty ? "\(from) -> \(to)" : "\(key): \(from) -> \(to)"
        }
        if notes.isEmpty, !isSameOtherwise {
            return ["a setting whose value is not shown, such as a secret or a URL"]
        }
        return notes
    }

    private static func grouped(_ facts: [PlanSummary.Fact]) -> [String: String] {
        Dictionary(facts.map { ($0.key, $0.value) }) { "\($0); \($1)" }
    }

    private static func settings(_ digest: PlanDigest) -> [Item] {
        let summary = digest.summary
        func item(_ name: String, _ value: String, isFixed: Bool = false) -> Item {
            let facts = [PlanSummary.Fact(key: "", value: value)]
            return Item(name: name, facts: facts, mark: digest.marks[name], isFixed: isFixed)
        }
        func items(_ section: String, _ values: [String: String], isFixed: (_ key: String) -> Bool) -> [Item] {
            let prefix = "\(section)."
            let marked = digest.marks.keys.filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) }
            // Some keys, such as a password, are not shown at all.
            return Set(values.keys).union(marked).sorted().map { key in
                let facts = values[key].map { [PlanSummary.Fact(key: "", value: $0)] } ?? []
                return Item(name: prefix + key, facts: facts, mark: digest.marks[prefix + key], isFixed: isFixed(key))
            }
        }
        // Unlike the address, a reload replaces it.
        let certificate = digest.marks["listeners.admin.tls"].map {
            [Item(name: "listeners.admin.tls", facts: [], mark: $0)]
        }
        return [
            item("state_directory", summary.stateDirectory, isFixed: true),
            item("workers", summary.workers, isFixed: true),
            item("proxy_status", String(summary.proxyStatus)), item("request_id_header", summary.requestIdHeader),
            item("listeners.admin", summary.admin, isFixed: true),
            item("access.require_client", summary.requireClient),
            item("access.allow_origins", "[\(summary.allowOrigins.joined(separator: ", "))]"),
        ]
            + items("audit", summary.audit) { _ in true }
            + items("tokens", summary.tokens) { _ in true }
            + items("limits", summary.limits, isFixed: Limits.keys.isFixed)
            + items("telemetry", summary.telemetry) { _ in true }
            + items("ca", summary.ca) { _ in false } + (certificate ?? [])
            + (summary.proxy.map { [item("defaults.proxy", $0)] } ?? [])
    }

    private static func engines(_ digest: PlanDigest) -> [Item] {
        (digest.summary.authz ?? []).map {
            Item(name: $0.name, facts: $0.facts, mark: digest.marks["listeners.authz.\($0.name)"])
        }
    }

    private static func users(_ digest: PlanDigest) -> [Item] {
        (digest.summary.adminUsers ?? [:]).sorted { $0.key < $1.key }.map { name, role in
            let facts = [PlanSummary.Fact(key: "role", value: role)]
            return Item(name: name, facts: facts, mark: digest.marks["listeners.admin.users.\(name)"])
        }
    }

    private static func clients(_ digest: PlanDigest) -> [Item] {
        let limits = Dictionary(grouping: digest.summary.clientLimits, by: \.name)
        return digest.summary.clients.map { name in
            let facts = (limits[name] ?? []).map { PlanSummary.Fact(key: "limits", value: $0.text) }
            return Item(name: name, facts: facts, mark: digest.marks["access.clients.\(name)"])
        }
    }

    private static func items(
        _ digest: PlanDigest,
        _ prefix: String,
        _ list: KeyPath<PlanSummary, [some PlanSummaryItem]>
    ) -> [Item] {
        digest.summary[keyPath: list].map {
            Item(name: $0.name, facts: $0.facts, mark: digest.marks["\(prefix).\($0.name)"])
        }
    }
}

/// A list of changes as text.
extension PlanChange {
    /// Those that are not merely kept.
    static func effective(_ changes: [PlanChange]) -> [PlanChange] { changes.filter { $0.kind != .kept } }

    /// One line per change, then what is kept, counted.
    package static func text(_ changes: [PlanChange]) -> String {
        let effective = effective(changes)
        guard !effective.isEmpty else { return "Nothing changes.\n" }
        var text = ""
        for change in effective {
            let sign = change.kind == .added ? "+" : (change.kind == .dropped ? "-" : "~")
            let restart = change.needsRestart ? " (needs a restart)" : ""
            text += "\(sign) \(change.path) \(change.kind.rawValue)\(restart)\n"
            for note in change.notes { text += "    \(note)\n" }
        }
        let kept = changes.filter { $0.kind == .kept }.map(\.path)
        let (routes, credentials) = (
            kept.count { $0.hasPrefix("routes.") }, kept.count { $0.hasPrefix("credentials.") }
        )
        return text + "Kept: \(routes) of the routes and \(credentials) of the credentials.\n"
    }
}
