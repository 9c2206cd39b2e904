package import GatewayHTTP

/// The last hour of every route, by the number that the observer gave it.
package struct TrafficHistory: Sendable {
    private var routes: [Int: RouteTraffic] = [:]

    package init() {}

    /// - Parameter minute: Since 1970, of civil time.
    package mutating func add(_ counts: RouteTraffic.Counts, route: Int, minute: Int64) {
        routes[route, default: RouteTraffic(minute: minute)].add(counts, minute: minute)
    }

    /// A route without a request has zeros.
    package func status(of route: Int, named name: String, at now: UnixTime) -> TrafficStatus {
        (routes[route] ?? RouteTraffic(minute: now.milliseconds / 60_000)).status(of: name, at: now)
    }
}

extension RouteTraffic.Counts {
    /// What went wrong here or at the upstream. An answer of 4xx is the client's affair, also where the gateway gave it; a
    /// response that was cut counts, whatever its status.
    package static func isError(status: Int, problem: ProblemKind?) -> Bool {
        if (400..<500).contains(status) { return false }
        return status >= 500 || problem != nil
    }

    /// The upstream did not let in the credential that the request went with.
    package static func isRejection(status: Int, problem: ProblemKind?, hadCredential: Bool) -> Bool {
        hadCredential && problem == nil && (status == 401 || status == 403)
    }
}
