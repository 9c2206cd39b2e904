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

    /// Whether anything was counted in the hour before this minute.
    fileprivate func isUsed(at minute: Int64) -> Bool {
        latest > minute - Int64(Self.minutes) && requests.contains { $0 > 0 }
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

/// The last hour of every route, by the number that the observer gave it, and of every client.
package struct TrafficHistory: Sendable {
    /// Clients that are told apart. An authorization server may name any number of them.
    static let clientLimit = 200

    private var routes: [Int: RouteTraffic] = [:]
    /// Under nil: clients without a name.
    private var clients: [String?: RouteTraffic] = [:]
    /// Clients beyond the limit, counted together.
    private var otherClients: RouteTraffic?
    /// The minute in which room was last looked for.
    private var roomSoughtAt = Int64.min

    package init() {}

    /// - Parameters:
    ///   - client: Its name; nil for one without.
    ///   - minute: Since 1970, of civil time.
    package mutating func add(_ counts: RouteTraffic.Counts, route: Int, client: String? = nil, minute: Int64) {
        routes[route, default: RouteTraffic(minute: minute)].add(counts, minute: minute)
        if clients[client] != nil || hasRoom(at: minute) {
            clients[client, default: RouteTraffic(minute: minute)].add(counts, minute: minute)
        } else {
            var others = otherClients ?? RouteTraffic(minute: minute)
            others.add(counts, minute: minute)
            otherClients = others
        }
    }

    private mutating func hasRoom(at minute: Int64) -> Bool {
        if clients.count >= Self.clientLimit, roomSoughtAt != minute {
            roomSoughtAt = minute
            clients = clients.filter { $0.value.isUsed(at: minute) }
        }
        return clients.count < Self.clientLimit
    }

    /// A route without a request has zeros.
    package func status(of route: Int, named name: String, at now: UnixTime) -> TrafficStatus {
        (routes[route] ?? RouteTraffic(minute: now.milliseconds / 60_000)).status(of: name, at: now)
    }

    /// Clients with a request in the last hour, in the order of their names; those without a name first, and the rest last.
    package func clients(at now: UnixTime) -> [ClientTraffic] {
        let minute = now.milliseconds / 60_000
        let used = clients.filter { $0.value.isUsed(at: minute) }.sorted { ($0.key ?? "") < ($1.key ?? "") }
        let named = used.map { ClientTraffic($0.value.status(of: "", at: now), client: $0.key, isRest: nil) }
        guard let otherClients, otherClients.isUsed(at: minute) else { return named }
        return named + [ClientTraffic(otherClients.status(of: "", at: now), client: nil, isRest: true)]
    }
}

/// How much a client uses the gateway, and how often that fails: for the page and `/api/traffic/hour`.
package struct ClientTraffic: Hashable, Sendable, Codable {
    /// nil for clients without a name.
    package var client: String?
    /// True for all clients that there was no room to tell apart; nil elsewhere.
    package var isRest: Bool?
    /// In each minute of the last hour, the oldest first. The last one is not over yet.
    package var requests: [Int]
    package var errors: [Int]
    package var rejections: [Int]

    package init(_ traffic: TrafficStatus, client: String?, isRest: Bool?) {
        self.client = client
        self.isRest = isRest
        requests = traffic.requests
        errors = traffic.errors
        rejections = traffic.rejections
    }
}

/// How long upstreams and the gateway took in each minute of the last hour: for the page and `/api/traffic/hour`.
///
/// Made of a sample of the requests: those that the gateway has in memory when it looks.
package struct LatencyHistory: Sendable {
    /// The gateway takes so much less than an upstream that its times are counted in larger units.
    private static let gatewayScale = 50.0

    private struct Minute {
        /// Since 1970.
        var number: Int64
        var upstream = LatencyCounts()
        var gateway = LatencyCounts()
    }

    private var minutes: [Minute] = []

    package init() {}

    package mutating func add(_ sample: Sample, minute: Int64) {
        // A clock that was set back: what was counted for a later minute stays there.
        if minutes.last.map({ $0.number < minute }) ?? true { minutes.append(Minute(number: minute)) }
        minutes[minutes.count - 1].upstream.add(sample.upstream)
        minutes[minutes.count - 1].gateway.add(sample.gateway)
        if minutes.count > RouteTraffic.minutes { minutes.removeFirst() }
    }

    package func status(at now: UnixTime) -> LatencyStatus {
        let latest = now.milliseconds / 60_000
        let known = Dictionary(minutes.map { ($0.number, $0) }) { $1 }
        let order = (0..<Int64(RouteTraffic.minutes)).map { known[latest - Int64(RouteTraffic.minutes) + 1 + $0] }
        func gateway(_ share: Double) -> [Double?] {
            order.map { $0?.gateway.milliseconds(of: share).map { $0 / Self.gatewayScale } }
        }
        return LatencyStatus(
            upstreamP50: order.map { $0?.upstream.milliseconds(of: 0.5) },
            upstreamP99: order.map { $0?.upstream.milliseconds(of: 0.99) },
            gatewayP50: gateway(0.5),
            gatewayP99: gateway(0.99)
        )
    }

    /// The latencies of some requests.
    package struct Sample: Sendable {
        fileprivate var upstream = LatencyCounts()
        fileprivate var gateway = LatencyCounts()

        package var isEmpty: Bool { upstream.total == 0 }

        package init() {}

        /// - Parameters:
        ///   - upstream: From the connection to the head of the response.
        ///   - gateway: Until there was a connection: it takes a route, a credential, and sometimes a handshake.
        package mutating func add(upstream: Duration, gateway: Duration) {
            self.upstream.add(seconds: Double(upstream.wholeNanoseconds) / 1e9)
            self.gateway.add(seconds: Double(gateway.wholeNanoseconds) / 1e9 * gatewayScale)
        }
    }
}

/// Milliseconds in each minute of the last hour, the oldest first; nil where there was no request.
package struct LatencyStatus: Hashable, Sendable, Codable {
    package var upstreamP50: [Double?]
    package var upstreamP99: [Double?]
    package var gatewayP50: [Double?]
    package var gatewayP99: [Double?]

    package init(
        upstreamP50: [Double?] = [],
        upstreamP99: [Double?] = [],
        gatewayP50: [Double?] = [],
        gatewayP99: [Double?] = []
    ) {
        self.upstreamP50 = upstreamP50
        self.upstreamP99 = upstreamP99
        self.gatewayP50 = gatewayP50
        self.gatewayP99 = gatewayP99
    }
}

/// The last hour beside that of each route: `/api/traffic/hour`.
package struct TrafficHour: Hashable, Sendable, Codable {
    /// The beginning of the first minute, RFC 3339.
    package var from: String
    package var clients: [ClientTraffic]
    package var latencies: LatencyStatus

    package init(clients: [ClientTraffic] = [], latencies: LatencyStatus = LatencyStatus(), at now: UnixTime) {
        let first = now.milliseconds / 60_000 - Int64(RouteTraffic.minutes) + 1
        from = UnixTime(milliseconds: first * 60_000).rfc3339
        self.clients = clients
        self.latencies = latencies
    }
}

extension RouteTraffic.Counts {
    /// What went wrong here or at the upstream. An answer of 4xx is the client's affair, also where the gateway gave it; a
    /// response that was cut counts, whatever its status. If nothing was answered, the status of the problem decides.
    package static func isError(status: Int, problem: ProblemKind?) -> Bool {
        let status = status == 0 ? problem?.status ?? 0 : status
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

    mutating func add(seconds: Double) {
        counts[Self.bounds.firstIndex { seconds <= $0 } ?? Self.bounds.count] &+= 1
    }

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
