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
    package static let recentMinutes = 5

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

    /// - Parameter name: Of the route.
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
