/// The requests for one host, and which route each of them finds, as ``RouteTable`` finds it.
struct ExportedHost: Hashable, Sendable {
    struct Entry: Hashable, Sendable {
        /// Whole segments; empty takes every path.
        let prefix: String
        /// Whether the prefix is removed before the request is forwarded.
        let isStripped: Bool
        let route: ExportedRoute
        /// A word for names in the proxy's configuration; no other entry has it.
        let identifier: String
    }

    /// Lower case, exact or `*.example.com`; nil takes every host.
    let name: String?
    /// The first one that fits counts.
    let entries: [Entry]

    var wildcardSuffix: String? { name.flatMap { $0.hasPrefix("*.") ? String($0.dropFirst()) : nil } }
}

extension ExportedHost {
    /// Exact hosts before wildcards, these by length, and at the end what takes every host.
    static func all(_ routes: [(plan: RoutePlan, route: ExportedRoute)], of whole: Plan) -> [ExportedHost] {
        var numbering = Numbering()
        let anyHost = routes.filter { !$0.plan.matchesAll }
            .map { Draft(prefix: $0.plan.matchPath == "/" ? "" : $0.plan.matchPath, isStripped: true, route: $0.route) }
        let names = Set(routes.flatMap(\.plan.matchHosts))
        let sorted = names.sorted { one, other in
            let (first, second) = (one.hasPrefix("*."), other.hasPrefix("*."))
            if first != second { return !first }
            return first && one.count != other.count ? one.count > other.count : one < other
        }
        var hosts: [ExportedHost] = []
        for name in sorted {
            // Routes that are not exported count too: where several name a host, the path is removed.
            let owners = whole.routes.filter { $0.matchHosts.contains(name) }
            let isShared = owners.count > 1 || owners.contains { $0.matchesAll }
            let own = routes.filter { $0.plan.matchHosts.contains(name) }
                .map { plan, route in
                    let prefix = !isShared || plan.matchPath == "/" ? "" : plan.matchPath
                    return Draft(prefix: prefix, isStripped: isShared, route: route)
                }
            hosts.append(ExportedHost(name: name, entries: numbering.entries(own, behind: anyHost)))
        }
        if !anyHost.isEmpty { hosts.append(ExportedHost(name: nil, entries: numbering.entries(anyHost, behind: []))) }
        return hosts
    }

    private struct Draft {
        let prefix: String
        let isStripped: Bool
        let route: ExportedRoute
    }

    private struct Numbering {
        private var count = 0

        mutating func entries(_ own: [Draft], behind rest: [Draft]) -> [Entry] {
            var result: [Entry] = []
            for draft in longestFirst(own) + longestFirst(rest) {
                guard !result.contains(where: { $0.prefix.isEmpty || $0.prefix == draft.prefix }) else { continue }
                count += 1
                let word = String(draft.route.name.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" })
                result.append(
                    Entry(
                        prefix: draft.prefix,
                        isStripped: draft.isStripped,
                        route: draft.route,
                        identifier: "\(word)_\(count)"
                    )
                )
            }
            return result
        }

        private func longestFirst(_ drafts: [Draft]) -> [Draft] { drafts.sorted { $0.prefix.count > $1.prefix.count } }
    }
}
