import GatewayHTTP
import Testing

@testable import GatewayEvents

@Suite(.timeLimit(.minutes(1)))
struct TrafficTests {
    private let minute: Int64 = 29_000_000

    private func counts(_ requests: Int, errors: Int = 0, bucket: Int = 4) -> RouteTraffic.Counts {
        var buckets = SIMD16<UInt32>()
        buckets[bucket] = UInt32(requests)
        return RouteTraffic.Counts(requests: requests, errors: errors, latencies: LatencyCounts(buckets))
    }

    private func time(_ minute: Int64, seconds: Int64 = 0) -> UnixTime {
        UnixTime(milliseconds: (minute * 60 + seconds) * 1000)
    }

    @Test func aRouteWithoutRequestsHasZerosAndNoShares() {
        let status = TrafficHistory().status(of: 3, named: "box", at: time(minute))
        #expect(status.route == "box")
        #expect(status.requests == Array(repeating: 0, count: 60))
        #expect(status.requestsPerSecond == 0)
        #expect(status.errorShare == nil && status.p50Milliseconds == nil && status.p99Milliseconds == nil)
    }

    @Test func theLastMinuteOfTheHourIsTheCurrentOne() {
        var history = TrafficHistory()
        history.add(counts(7), route: 0, minute: minute)
        history.add(counts(5, errors: 2), route: 0, minute: minute - 2)
        let status = history.status(of: 0, named: "box", at: time(minute))
        #expect(status.requests.suffix(3) == [5, 0, 7])
        #expect(status.errors.suffix(3) == [2, 0, 0])
        #expect(history.status(of: 0, named: "box", at: time(minute + 1)).requests.suffix(3) == [0, 7, 0])
    }

    @Test func theRateIsThatOfTheLastSixtySeconds() {
        var history = TrafficHistory()
        history.add(counts(600), route: 0, minute: minute - 1)
        history.add(counts(300), route: 0, minute: minute)
        #expect(history.status(of: 0, named: "", at: time(minute, seconds: 0)).requestsPerSecond == 15)
        #expect(history.status(of: 0, named: "", at: time(minute, seconds: 30)).requestsPerSecond == 10)
        #expect(history.status(of: 0, named: "", at: time(minute + 2)).requestsPerSecond == 0)
    }

    @Test func sharesAreOfTheLastFiveMinutes() {
        var history = TrafficHistory()
        history.add(counts(100, errors: 100, bucket: 9), route: 0, minute: minute - 5)
        history.add(counts(30, errors: 3), route: 0, minute: minute)
        let status = history.status(of: 0, named: "", at: time(minute))
        #expect(status.errorShare == 0.1)
        #expect((10...25).contains(status.p99Milliseconds ?? 0))
        #expect(history.status(of: 0, named: "", at: time(minute + 5)).errorShare == nil)
    }

    @Test func rejectionsOfTheCredentialAreNoErrors() {
        var history = TrafficHistory()
        var rejected = counts(10)
        rejected.rejections = 5
        history.add(rejected, route: 0, minute: minute)
        let status = history.status(of: 0, named: "", at: time(minute))
        #expect(status.errorShare == 0 && status.rejectionShare == 0.5 && status.rejections.suffix(2) == [0, 5])
        #expect(history.status(of: 0, named: "", at: time(minute + 5)).rejectionShare == nil)
        #expect(RouteTraffic.Counts.isRejection(status: 401, problem: nil, hadCredential: true))
        #expect(!RouteTraffic.Counts.isRejection(status: 401, problem: nil, hadCredential: false))
        #expect(!RouteTraffic.Counts.isRejection(status: 401, problem: .clientAuthRequired, hadCredential: true))
        #expect(!RouteTraffic.Counts.isRejection(status: 404, problem: nil, hadCredential: true))
    }

    @Test func anHourLaterNothingIsLeft() {
        var history = TrafficHistory()
        history.add(counts(7), route: 0, minute: minute)
        let later = history.status(of: 0, named: "", at: time(minute + 60))
        #expect(later.requests.reduce(0, +) == 0)
        history.add(counts(1), route: 0, minute: minute + 1000)
        #expect(history.status(of: 0, named: "", at: time(minute + 1000)).requests.reduce(0, +) == 1)
    }

    @Test func countsThatComeLateAreAddedToTheirMinute() {
        var history = TrafficHistory()
        history.add(counts(1), route: 0, minute: minute)
        history.add(counts(2), route: 0, minute: minute - 59)
        history.add(counts(4), route: 0, minute: minute - 60)
        let status = history.status(of: 0, named: "", at: time(minute))
        #expect(status.requests.first == 2)
        #expect(status.requests.reduce(0, +) == 3)
    }

    @Test func aClockThatJumpsBackTrapsNothing() {
        var history = TrafficHistory()
        history.add(counts(1), route: 0, minute: minute)
        let status = history.status(of: 0, named: "", at: time(minute - 600))
        #expect(status.requests.count == 60)
        history.add(counts(1), route: 0, minute: -5)
        #expect(history.status(of: 0, named: "", at: time(-5)).requests.count == 60)
    }

    @Test func quantilesAreEstimatedBetweenTheBounds() {
        var buckets = SIMD16<UInt32>()
        buckets[5] = 50  // 25 to 50 ms
        buckets[6] = 50  // 50 to 100 ms
        let counts = LatencyCounts(buckets)
        #expect(counts.milliseconds(of: 0.5) == 50)
        #expect(counts.milliseconds(of: 0.99) == 99)
        buckets = SIMD16()
        buckets[15] = 1
        #expect(LatencyCounts(buckets).milliseconds(of: 0.5) == 60_000)
        #expect(LatencyCounts().milliseconds(of: 0.5) == nil)
    }

    @Test func clientsAreToldApart() {
        var history = TrafficHistory()
        history.add(counts(7, errors: 1), route: 0, client: "ci", minute: minute)
        history.add(counts(5), route: 1, client: "ci", minute: minute - 1)
        history.add(counts(3), route: 0, minute: minute)
        let clients = history.clients(at: time(minute))
        #expect(clients.map(\.client) == [nil, "ci"])
        #expect(clients.last?.requests.suffix(2) == [5, 7] && clients.last?.errors.last == 1)
        #expect(history.clients(at: time(minute + 60)) == [], "an hour later")
    }

    @Test func theNumberOfClientsIsBounded() {
        var history = TrafficHistory()
        for number in 0..<(TrafficHistory.clientLimit + 50) {
            history.add(counts(1), route: 0, client: "c\(number)", minute: minute)
        }
        let clients = history.clients(at: time(minute))
        #expect(clients.count == TrafficHistory.clientLimit + 1)
        #expect(clients.last?.isRest == true && clients.last?.requests.last == 50)
        history.add(counts(1), route: 0, client: "new", minute: minute + 90)
        #expect(history.clients(at: time(minute + 90)).map(\.client) == ["new"], "those of earlier hours make room")
    }

    @Test func latenciesOfUpstreamsAndGatewayAreToldByMinute() {
        var history = LatencyHistory()
        var sample = LatencyHistory.Sample()
        #expect(sample.isEmpty)
        for _ in 0..<100 { sample.add(upstream: .milliseconds(40), gateway: .microseconds(150)) }
        sample.add(upstream: .seconds(2), gateway: .milliseconds(3))
        history.add(sample, minute: minute)
        let status = history.status(at: time(minute + 1))
        #expect(status.upstreamP50.count == 60 && status.upstreamP50.last == .some(nil))
        let (median, tail) = (status.upstreamP50[58] ?? 0, status.gatewayP99[58] ?? 0)
        #expect((25...50).contains(median) && (0.1...0.2).contains(tail))
        #expect(history.status(at: time(minute + 60)) == LatencyHistory().status(at: time(minute)))
        for later in 0..<100 { history.add(sample, minute: minute + Int64(later)) }
        #expect(history.status(at: time(minute + 99)).upstreamP50.count { $0 != nil } == 60)
        history.add(sample, minute: minute - 500)
    }

    @Test(
        arguments: [
            (200, nil, false), (404, nil, false), (401, .clientAuthRequired, false), (502, .upstreamUnreachable, true),
            (500, nil, true), (200, .upstreamUnreachable, true), (0, nil, false),
            (0, .clientLimitReached, false), (0, .internalError, true),
        ] as [(Int, ProblemKind?, Bool)]
    )
    func whatIsAnError(_ status: Int, _ problem: ProblemKind?, _ isError: Bool) {
        #expect(RouteTraffic.Counts.isError(status: status, problem: problem) == isError)
    }
}
