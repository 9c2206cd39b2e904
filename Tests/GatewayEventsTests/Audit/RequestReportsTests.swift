import GatewayHTTP
import Testing

@testable import GatewayEvents

@Suite("What is written of requests that were not served", .timeLimit(.minutes(5)))
struct RequestReportsTests {
    private final class Bench {
        var reports = RequestReports<RequestUse>()
        var now = MonotonicTime(nanoseconds: 0)
        private var number = 0

        typealias Row = RequestReports<RequestUse>.Row

        func add(
            _ failure: RequestFailure,
            problem: ProblemKind? = nil,
            status: Int = 502,
            route: Int? = 1,
            client: String? = "laptop"
        ) -> Row? {
            number += 1
            let id = "id\(number)"
            return reports.add(
                failure,
                problem: problem,
                status: status,
                route: route,
                client: client,
                id: id,
                at: now,
                sample: RequestUse(
                    at: UnixTime(seconds: 0),
                    requestID: id,
                    clientRequestID: "mine",
                    route: route.map { "route\($0)" } ?? "",
                    client: client,
                    method: "GET",
                    status: status,
                    problem: problem,
                    failure: failure,
                    credential: "box",
                    generation: 3,
                    bytesReceived: 0,
                    bytesSent: 0,
                    duration: .milliseconds(12)
                )
            )
        }

        func add(_ kind: ProblemKind, peer: String = "192.0.2.1", host: String = "", client: String? = nil)
            -> Row?
        {
            let place = RequestPlace(peer: peer, host: host, path: "/x")
            return add(
                RequestFailure(GatewayProblem(kind, "It failed."), place: place),
                problem: kind,
                status: kind.status,
                client: client
            )
        }

        func rest() -> [Row] { reports.rest() }

        func due(after duration: Duration) -> [Row] {
            now = now + duration
            return reports.due(at: now)
        }
    }

    private static let place = RequestPlace(peer: "192.0.2.1", host: "localhost", path: "/users/{id}")

    private static func refused(by error: GatewayProblem.HopError = .connectionRefused) -> RequestFailure {
        let problem = GatewayProblem(.upstreamUnreachable, "api does not accept connections.", hopError: error)
        return RequestFailure(problem, credential: "box", place: place)
    }

    @Test func aKindIsAReasonOnARoute() {
        let bench = Bench()
        #expect(bench.add(Self.refused(), problem: .upstreamUnreachable) != nil)
        // Whoever it is, and whatever else it asked for.
        #expect(bench.add(Self.refused(), problem: .upstreamUnreachable, client: "ci") == nil)
        #expect(bench.add(Self.refused(), problem: .upstreamUnreachable, route: 2) != nil)
        #expect(bench.add(Self.refused(by: .nameNotResolved), problem: .upstreamUnreachable) != nil)
        #expect(bench.due(after: .seconds(60)).map(\.count) == [1])
    }

    @Test func everyStatusOfAnUpstreamIsAKind() {
        let bench = Bench()
        let failure = RequestFailure(reason: .upstreamStatus, place: Self.place)
        #expect(bench.add(failure, status: 500) != nil)
        #expect(bench.add(failure, status: 503) != nil)
        #expect(bench.add(failure, status: 503) == nil)
    }

    @Test func statusesThatNobodyUsesAreOneKind() {
        let bench = Bench()
        let failure = RequestFailure(reason: .upstreamStatus, place: Self.place)
        #expect(bench.add(failure, status: 571) != nil)
        for status in [572, 599, 600, 999, 500] { #expect(bench.add(failure, status: status) == nil) }
    }

    /// A client asks for ever new hosts, or fails in ever new ways on many routes.
    @Test func oneClientLeavesTheOthersTheirRows() {
        let bench = Bench()
        for number in 0..<1000 {
            _ = bench.add(.noRoute, peer: "192.0.2.66", host: "h\(number).example")
            let failure = RequestFailure(reason: .upstreamStatus, place: Self.place)
            _ = bench.add(failure, status: 500 + number % 10, route: number, client: "mallory")
        }
        bench.now = bench.now + .seconds(1)
        let stray = bench.add(.noRoute, peer: "192.0.2.1", host: "mine.example")
        #expect(stray?.key == .stray(host: "mine.example", network: "192.0.2.1", reason: .noRoute))
        let failed = bench.add(Self.refused(), problem: .upstreamUnreachable, route: 2000)
        #expect(failed?.isMixed == false && failed?.sample.client == "laptop")
    }

    @Test func whatAClientCausesItselfIsAKindOfItsOwn() {
        let bench = Bench()
        #expect(bench.add(.clientLimitReached, client: "laptop") != nil)
        #expect(bench.add(.clientLimitReached, client: "ci") != nil)
        #expect(bench.add(.clientLimitReached, client: "ci") == nil)
        #expect(bench.add(.requestRefused, peer: "192.0.2.1") != nil)
        #expect(bench.add(.requestRefused, peer: "192.0.2.2") != nil)
    }

    @Test func denialsAreMergedByAddress() throws {
        let bench = Bench()
        let row = try #require(bench.add(.clientAuthRequired, peer: "192.0.2.1"))
        let event = try #require(TokenEvent(row))
        #expect(event.name == .clientDenied && event.errorCode == "client-auth-required" && event.httpStatus == 401)
        #expect(event.detail["peer"] == "192.0.2.1" && event.detail["reason"] == "client-auth-required")
        #expect(bench.add(.clientAuthRequired, peer: "192.0.2.1") == nil)
        #expect(bench.add(.clientAuthRequired, peer: "192.0.2.2") != nil)
        // A host of IPv6 has a whole network to choose its address from.
        #expect(bench.add(.clientAuthRequired, peer: "2001:db8::1") != nil)
        #expect(bench.add(.clientAuthRequired, peer: "2001:db8:0:0:9::7") == nil)
        #expect(bench.due(after: .seconds(60)).compactMap { TokenEvent($0)?.detail["count"] } == [])
        #expect(bench.rest().isEmpty)
    }

    @Test func requestsWithoutARouteAreNoRows() throws {
        let bench = Bench()
        for kind: ProblemKind in [.noRoute, .methodRefused, .misdirected] {
            let row = try #require(bench.add(kind, host: "elsewhere.example"))
            #expect(TokenEvent(row) == nil)
            #expect(bench.add(kind, host: "elsewhere.example") == nil)
        }
        #expect(bench.add(.noRoute, host: "third.example") != nil)
    }

    @Test func theFirstRowNamesTheRequest() throws {
        let bench = Bench()
        let row = try #require(bench.add(Self.refused(), problem: .upstreamUnreachable))
        let event = try #require(TokenEvent(row))
        #expect(event.name == .requestFailed && event.outcome == .failed)
        #expect(event.errorCode == "connection_refused" && event.httpStatus == 502)
        #expect(event.credential == "box" && event.generation == 3 && event.duration == .milliseconds(12))
        let demand = CredentialRequest(route: "route1", client: "laptop", requestID: "id1", clientRequestID: "mine")
        #expect(event.demand == demand)
        #expect(
            event.detail == [
                "method": "GET", "peer": "192.0.2.1", "path": "/users/{id}", "problem": "upstream-unreachable",
                "explanation": "api does not accept connections.",
            ]
        )
    }

    @Test func theSecondRowCountsAndNamesSome() throws {
        let bench = Bench()
        for _ in 0..<4 { _ = bench.add(Self.refused(), problem: .upstreamUnreachable) }
        let row = try #require(bench.due(after: .seconds(60)).first)
        let event = try #require(TokenEvent(row))
        #expect(event.demand?.requestID == "id2")
        #expect(event.detail["count"] == "3" && event.detail["requests"] == "id2 id3 id4")
    }

    /// A client with many kinds of failures takes half of a second's rows at most, and no row of another one is lost.
    @Test func aNoisyClientDoesNotSilenceOthers() {
        let bench = Bench()
        var noisy = 0
        for route in 0..<100
        where bench.add(Self.refused(), problem: .upstreamUnreachable, route: route, client: "noisy") != nil {
            noisy += 1
        }
        #expect(noisy == RowBudget.perCause)
        #expect(bench.add(.contentTooLarge, client: "quiet") != nil)
        #expect(bench.add(.clientAuthRequired, peer: "192.0.2.9") != nil)
        var seconds = 0
        while noisy < 100, seconds < 60 {
            let rows = bench.due(after: .seconds(1))
            #expect(rows.count <= RowBudget.perCause)
            noisy += rows.map(\.count).reduce(0, +)
            seconds += 1
        }
        #expect(noisy == 100 && seconds == 19)
    }

    /// A guesser with ever new addresses.
    @Test func denialsAndFailuresShareTheBudgetAndTheMemoryIsBounded() {
        let bench = Bench()
        var rows = 0
        for number in 0..<5000 where bench.add(.clientAuthRequired, peer: "10.0.\(number / 256).\(number % 256)") != nil
        {
            rows += 1
        }
        #expect(rows == RowBudget.perSecond)
        #expect(bench.add(Self.refused(), problem: .upstreamUnreachable) == nil)
        let rest = bench.rest()
        #expect(rest.map(\.count).reduce(0, +) == 5001 - rows)
        #expect(rest.count <= RequestReports<RequestUse>.maximumDenials + 2)
        #expect(rest.contains { $0.isMixed && $0.detail["peer"] == nil && $0.count > 4000 })
    }

    // MARK: Bounds

    private typealias Reports = RequestReports<RequestUse>

    /// The number of distinct keys, and the number of events counted under merged keys.
    private static func count(_ number: Int, _ add: (Bench, Int) -> Bench.Row?) -> (keys: Int, merged: Int) {
        let bench = Bench()
        let rows = (0..<number).compactMap { add(bench, $0) } + bench.rest()
        let keys = Set(rows.filter { !$0.isMixed }.map(\.key))
        return (keys.count, rows.filter(\.isMixed).reduce(0) { $0 + $1.count })
    }

    @Test func theNumberOfDistinctFailuresIsLimited() {
        let most = Reports.maximumFailures
        for (number, merged) in [(most, 0), (most + 1, 1), (most + 7, 7)] {
            let found = Self.count(number) { bench, index in
                bench.add(Self.refused(), problem: .upstreamUnreachable, route: index, client: "c\(index)")
            }
            #expect(found.keys == most && found.merged == merged)
        }
    }

    @Test func theNumberOfDistinctDenialsIsLimited() {
        let most = Reports.maximumDenials
        for (number, merged) in [(most, 0), (most + 1, 1), (most + 7, 7)] {
            let found = Self.count(number) { bench, index in
                bench.add(.clientAuthRequired, peer: "192.0.\(index / 200).\(index % 200)")
            }
            #expect(found.keys == most && found.merged == merged)
        }
    }

    @Test func theNumberOfDistinctStrayRequestsIsLimited() {
        let most = Reports.maximumStrays
        for (number, merged) in [(most, 0), (most + 1, 1), (most + 7, 7)] {
            let found = Self.count(number) { bench, index in
                bench.add(.noRoute, peer: "192.0.\(index / 200).\(index % 200)", host: "a.example")
            }
            #expect(found.keys == most && found.merged == merged)
        }
    }
}
