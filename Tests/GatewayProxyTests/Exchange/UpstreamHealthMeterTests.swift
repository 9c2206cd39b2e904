import GatewayEvents
import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("How an upstream has answered lately", .timeLimit(.minutes(5)))
struct UpstreamHealthMeterTests {
    private static let start = UnixTime(seconds: 1_772_357_400)

    private static let outcomes: [(status: Int, problem: ProblemKind?, outcome: UpstreamOutcome)] = [
        (200, nil, .success), (101, nil, .success), (404, nil, .success), (429, nil, .success),
        (503, nil, .failure("status 503")), (502, .upstreamUnreachable, .failure("upstream-unreachable")),
        (504, .upstreamTimeout, .failure("upstream-timeout")), (503, .upstreamBusy, .failure("upstream-busy")),
        (200, .upstreamInvalidResponse, .failure("upstream-invalid-response")),
    ]

    @Test func whatAnExchangeSays() {
        for (status, problem, outcome) in Self.outcomes {
            #expect(UpstreamOutcome(status: status, problem: problem) == outcome)
        }
    }

    @Test(arguments: [401, 403]) func anUpstreamThatRejectsTheCredentialWorksAndLetsNobodyIn(_ status: Int) {
        #expect(UpstreamOutcome(status: status, problem: nil, hadCredential: true) == .rejection)
        #expect(UpstreamOutcome(status: status, problem: nil) == .success)
        #expect(UpstreamOutcome(status: 404, problem: nil, hadCredential: true) == .success)
        var meter = UpstreamHealthMeter()
        meter.add(.rejection, count: 3, latest: Self.start)
        meter.add(.success, count: 1, latest: Self.start + .seconds(-20))
        let health = meter.health(at: Self.start)
        #expect(health.rejectionRate == 0.75 && health.failureRate == 0 && health.requests == 4)
        #expect(health.lastSuccessAt == (Self.start + .seconds(-20)).rfc3339 && health.lastFailureAt == nil)
    }

    /// Otherwise a client without a right, or an expired token, would make an upstream look ill.
    @Test(arguments: ProblemKind.allCases.filter { !$0.concernsUpstream } + [.upgradeFailed])
    func whatTheGatewayRefusesSaysNothing(_ problem: ProblemKind) {
        #expect(UpstreamOutcome(status: problem.status, problem: problem) == nil)
    }

    @Test func aClientThatLeftBeforeTheResponseSaysNothing() {
        #expect(UpstreamOutcome(status: 0, problem: nil) == nil)
    }

    @Test func clientsThatGiveUpOneAfterTheOtherAreSaid() {
        var meter = UpstreamHealthMeter()
        meter.addUnanswered(count: 2, latest: Self.start)
        #expect(meter.health(at: Self.start).unanswered == nil)
        meter.addUnanswered(count: 1, latest: Self.start + .seconds(20))
        let health = meter.health(at: Self.start + .seconds(30))
        #expect(health.unanswered == 3 && health.requests == 0 && health.failureRate == nil)
        #expect(health.silence == "no response to the last 3 requests (clients gave up)")
        #expect(meter.health(at: Self.start + .seconds(320)).unanswered == nil, "that was long ago")
        meter.add(.failure("status 503"), count: 1, latest: Self.start + .seconds(40))
        #expect(meter.health(at: Self.start + .seconds(40)).unanswered == nil, "a response ends the silence")
    }

    /// On a busy route some clients always give up.
    @Test func besideResponsesClientsThatGiveUpAreNotSaid() {
        var meter = UpstreamHealthMeter()
        meter.add(.success, count: 100, latest: Self.start)
        meter.addUnanswered(count: 9, latest: Self.start)
        meter.addUnanswered(count: 9, latest: Self.start + .seconds(1))
        #expect(meter.health(at: Self.start + .seconds(1)).unanswered == nil)
        meter.addUnanswered(count: 1, latest: Self.start + .seconds(10))
        #expect(meter.health(at: Self.start + .seconds(10)).unanswered == 10)
    }

    @Test func theLastOfEachAndTheRateAreKept() {
        var meter = UpstreamHealthMeter()
        meter.add(.success, count: 3, latest: Self.start)
        meter.add(.failure("status 503"), count: 1, latest: Self.start + .seconds(20))
        let health = meter.health(at: Self.start + .seconds(30))
        #expect(health.lastSuccessAt == Self.start.rfc3339)
        #expect(health.lastFailureAt == (Self.start + .seconds(20)).rfc3339)
        #expect(health.lastFailure == "status 503")
        #expect(health.failureRate == 0.25)
        #expect(health.requests == 4)
    }

    /// The count comes every few seconds and knows the second alone.
    @Test(arguments: [true, false]) func theReasonOfTheLastFailureIsKeptWhicheverComesFirst(isCountedFirst: Bool) {
        var meter = UpstreamHealthMeter()
        let failure = RequestFailure(
            GatewayProblem(.upstreamUnreachable, "It is not running.", hopError: .connectionRefused),
            place: RequestPlace(peer: "127.0.0.1", path: "/")
        )
        let id = RequestID(run: 1, worker: 0, number: 7)
        let counted = UpstreamOutcome.failure("upstream-unreachable")
        if isCountedFirst { meter.add(counted, count: 1, latest: Self.start) }
        meter.explain(failure, status: 502, requestID: id, at: Self.start + .milliseconds(300))
        if !isCountedFirst { meter.add(counted, count: 1, latest: Self.start) }
        let health = meter.health(at: Self.start + .seconds(1))
        #expect(health.lastFailure == "connection_refused" && health.lastFailureExplanation == "It is not running.")
        #expect(health.lastFailureRequestId == id.description && health.requests == 1)
        #expect(health.lastFailureAt == (Self.start + .milliseconds(300)).rfc3339)
    }

    @Test func theStatusOfAnUpstreamIsItsReason() {
        var meter = UpstreamHealthMeter()
        let failure = RequestFailure(reason: .upstreamStatus, place: RequestPlace(peer: "127.0.0.1", path: "/"))
        meter.explain(failure, status: 503, requestID: RequestID(run: 1, worker: 0, number: 7), at: Self.start)
        #expect(meter.health(at: Self.start).lastFailure == "status 503")
    }

    @Test func after5MinutesOnlyTheLastOfEachIsLeft() {
        var meter = UpstreamHealthMeter()
        meter.add(.failure("status 503"), count: 1, latest: Self.start)
        meter.add(.success, count: 1, latest: Self.start + .seconds(200))
        let later = meter.health(at: Self.start + .seconds(300))
        #expect(later.failureRate == 0)
        #expect(later.requests == 1)
        let last = meter.health(at: Self.start + .seconds(3600))
        #expect(last.failureRate == nil)
        #expect(last.requests == 0)
        #expect(last.lastFailureAt == Self.start.rfc3339)
    }

    @Test func aSlotIsUsedAgain() {
        var meter = UpstreamHealthMeter()
        meter.add(.failure("old"), count: 9, latest: Self.start)
        meter.add(.success, count: 1, latest: Self.start + .seconds(300))
        #expect(meter.health(at: Self.start + .seconds(300)).requests == 1)
        meter.add(.failure("late"), count: 9, latest: Self.start)
        let health = meter.health(at: Self.start + .seconds(300))
        #expect(health.requests == 1, "what is reported late is out of the window")
    }

    /// Shards are collected one after the other, so that an older failure may be told after a newer one.
    @Test func anOlderFailureDoesNotReplaceANewerOne() {
        var meter = UpstreamHealthMeter()
        meter.add(.failure("new"), count: 1, latest: Self.start + .seconds(5))
        meter.add(.failure("old"), count: 1, latest: Self.start)
        meter.add(.success, count: 1, latest: Self.start + .seconds(5))
        meter.add(.success, count: 1, latest: Self.start)
        let health = meter.health(at: Self.start + .seconds(5))
        #expect(health.lastFailure == "new")
        #expect(health.lastSuccessAt == (Self.start + .seconds(5)).rfc3339)
    }
}
