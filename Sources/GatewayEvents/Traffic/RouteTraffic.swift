package import GatewayHTTP

/// The exchanges of one route in the last hour, minute by minute.
package struct RouteTraffic: Sendable {
    /// What was counted together.
    package struct Counts: Hashable, Sendable {
        package var requests: Int
        package var errors: Int
        /// The upstream did not let the credential in.
        package var rejections: Int
        package var latencies: LatencyCounts

        package init(requests: Int, errors: Int, rejections: Int = 0, latencies: LatencyCounts) {
            self.requests = requests
            self.errors = errors
            self.rejections = rejections
            self.latencies = latencies
        }
    }

    package static let minutes = 60
    /// Errors and latencies are told of these, the current one included.
    private static let recentMinutes = 5

    /// The newest minute of civil time that anything was counted in.
    private var latest: Int64
    /// At the minute modulo their number.
    private var requests = [UInt32](repeating: 0, count: minutes)
    private var errors = [UInt32](repeating: 0, count: minutes)
    private var rejections = [UInt32](repeating: 0, count: minutes)
    private var latencies = [LatencyCounts](repeating: LatencyCounts(), count: recentMinutes)

    /// - Parameter minute: Since 1970.
    package init(minute: Int64) { latest = minute }

    /// Counts that are an hour old, or older, are dropped.
    package mutating func add(_ counts: Counts, minute: Int64) {
        advance(to: minute)
        assert(latest >= minute, "Something is counted in a minute that is still to come.")
        guard latest - minute < Int64(Self.minutes) else { return }
        let place = Self.place(of: minute, in: Self.minutes)
        requests[place] &+= UInt32(clamping: counts.requests)
        errors[place] &+= UInt32(clamping: counts.errors)
        rejections[place] &+= UInt32(clamping: counts.rejections)
        guard latest - minute < Int64(Self.recentMinutes) else { return }
        latencies[Self.place(of: minute, in: Self.recentMinutes)].add(counts.latencies)
    }

    private mutating func advance(to minute: Int64) {
        guard minute > latest else { return }
        for skipped in max(latest + 1, minute - Int64(Self.minutes) + 1)...minute {
            requests[Self.place(of: skipped, in: Self.minutes)] = 0
            errors[Self.place(of: skipped, in: Self.minutes)] = 0
            rejections[Self.place(of: skipped, in: Self.minutes)] = 0
            latencies[Self.place(of: skipped, in: Self.recentMinutes)] = LatencyCounts()
        }
        latest = minute
    }

    /// - Parameter name: The name of the route.
    package func status(of name: String, at now: UnixTime) -> TrafficStatus {
        var traffic = self
        let minute = now.milliseconds / 60_000
        traffic.advance(to: minute)
        let order = (0..<Int64(Self.minutes)).map {
            Self.place(of: traffic.latest - Int64(Self.minutes) + 1 + $0, in: Self.minutes)
        }
        let requests = order.map { Int(traffic.requests[$0]) }
        let errors = order.map { Int(traffic.errors[$0]) }
        let rejections = order.map { Int(traffic.rejections[$0]) }
        let recent = requests.suffix(Self.recentMinutes).reduce(0, +)
        let latencies = traffic.latencies.reduce(into: LatencyCounts()) { $0.add($1) }
        return TrafficStatus(
            route: name,
            requestsPerSecond: Self.rate(requests, secondsIntoMinute: Double(now.milliseconds % 60_000) / 1000),
            errorShare: Self.share(of: errors, among: recent),
            rejectionShare: Self.share(of: rejections, among: recent),
            p50Milliseconds: latencies.milliseconds(of: 0.5),
            p99Milliseconds: latencies.milliseconds(of: 0.99),
            requests: requests,
            errors: errors,
            rejections: rejections
        )
    }

    private static func share(of counts: [Int], among recent: Int) -> Double? {
        recent == 0 ? nil : Double(counts.suffix(recentMinutes).reduce(0, +)) / Double(recent)
    }

    /// Over the last 60 seconds: of the minute before, the part that lies within them.
    private static func rate(_ requests: [Int], secondsIntoMinute seconds: Double) -> Double {
        let last = requests.suffix(2).map(Double.init)
        guard last.count == 2 else { return 0 }
        return (last[1] + last[0] * (60 - seconds) / 60) / 60
    }

    private static func place(of minute: Int64, in count: Int) -> Int {
        Int(minute % Int64(count) + Int64(count)) % count
    }
}

/// How much a route is used, how often that fails, and how long it takes: for the page and `/api/traffic`.
package struct TrafficStatus: Hashable, Sendable, Codable {
    package var route: String
    /// In the last minute.
    package var requestsPerSecond: Double
    /// 0...1, over the last 5 minutes; nil without a request in that time.
    package var errorShare: Double?
    /// Answers of 401 and 403 to requests with a credential: 0...1, over the last 5 minutes; nil without a request in that time.
    package var rejectionShare: Double?
    /// Over the last 5 minutes.
    package var p50Milliseconds: Double?
    package var p99Milliseconds: Double?
    /// In each minute of the last hour, the oldest first. The last one is not over yet.
    package var requests: [Int]
    package var errors: [Int]
    package var rejections: [Int]

    package init(
        route: String,
        requestsPerSecond: Double = 0,
        errorShare: Double? = nil,
        rejectionShare: Double? = nil,
        p50Milliseconds: Double? = nil,
        p99Milliseconds: Double? = nil,
        requests: [Int] = [],
        errors: [Int] = [],
        rejections: [Int] = []
    ) {
        self.route = route
        self.requestsPerSecond = requestsPerSecond
        self.errorShare = errorShare
        self.rejectionShare = rejectionShare
        self.p50Milliseconds = p50Milliseconds
        self.p99Milliseconds = p99Milliseconds
        self.requests = requests
        self.errors = errors
        self.rejections = rejections
    }
}

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

/// How many exchanges took up to each of ``bounds``, and longer.
///
/// No array: that would be one more place in memory for each route in use.
package struct LatencyCounts: Hashable, Sendable {
    /// Seconds. The counts have one place more, for what took longer than all of them.
    package static let bounds: [Double] = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
    ]

    package private(set) var counts: SIMD16<UInt32>

    package init(_ counts: SIMD16<UInt32> = SIMD16()) { self.counts = counts }

    package var total: Int { counts.indices.reduce(0) { $0 + Int(counts[$1]) } }

    package mutating func add(_ other: LatencyCounts) { counts &+= other.counts }

    /// The milliseconds that this share of the exchanges took at most, estimated within its bounds; nil without an exchange.
    ///
    /// - Parameter share: 0.5 for the median.
    package func milliseconds(of share: Double) -> Double? {
        let total = total
        guard total > 0 else { return nil }
        let wanted = share * Double(total)
        var before = 0.0
        for index in counts.indices where counts[index] > 0 {
            let count = Double(counts[index])
            if before + count >= wanted { return Self.estimate(index, (wanted - before) / count) * 1000 }
            before += count
        }
        return Self.bounds.last.map { $0 * 1000 }
    }

    /// Seconds; `part` of the way from one bound to the next. Above the last bound nothing is known but that bound.
    private static func estimate(_ index: Int, _ part: Double) -> Double {
        let lower = index == 0 ? 0 : bounds[index - 1]
        let upper = index < bounds.count ? bounds[index] : lower
        return lower + (upper - lower) * part
    }
}

/// The statuses that are told apart where requests are counted, for example as the label of a metric.
///
/// An upstream chooses the status. If each were counted by itself, the upstream of one route could use up the room for those of all
/// routes. So a status that is not in common use counts as the first one of its class (RFC 9110 section 15).
package enum CountedStatus {
    /// Those that are registered, and those of well-known proxies.
    private static let common: [ClosedRange<Int>] = [
        100...103, 200...208, 226...226, 300...308, 400...431, 451...451, 499...499, 500...511, 520...530,
    ]

    /// - Parameter status: 0 where nothing was answered.
    package static func number(for status: Int) -> Int {
        guard status != 0, !common.contains(where: { $0.contains(status) }) else { return status }
        // What is in no class is taken for an error of the server.
        return (100..<600).contains(status) ? status / 100 * 100 : 500
    }
}
