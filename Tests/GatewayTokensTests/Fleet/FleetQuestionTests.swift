import GatewayHTTP
import Testing

@testable import GatewayTokens

@Suite("Which gateways have followed", .timeLimit(.minutes(1)))
struct FleetQuestionTests {
    private func member(
        _ id: String,
        _ acknowledged: Int64 = 0,
        seen: Duration = .milliseconds(300),
        version: String = "1",
        digest: String = "aaaaaa",
        offset: Duration = .zero
    ) -> FleetMember {
        let heartbeat = FleetHeartbeat(
            id: id,
            host: "host-\(id)",
            version: version,
            startedAt: "2026-11-25T08:00:00.000Z",
            configurationDigest: digest,
            clockOffset: offset,
            acknowledged: FleetMark(acknowledged)
        )
        return FleetMember(heartbeat, seen: seen)
    }

    // MARK: What may be acknowledged

    @Test func nothingIsAcknowledgedBeforeEachPartWasFollowed() {
        var acknowledgement = FleetAcknowledgement()
        #expect(acknowledgement.mark == nil)
        acknowledgement.follow(.tokens, upTo: FleetMark(9))
        #expect(acknowledgement.mark == nil)
        acknowledgement.follow(.locks, upTo: FleetMark(7))
        #expect(acknowledgement.mark == FleetMark(7))
    }

    @Test func thePartThatIsBehindCounts() {
        var acknowledgement = FleetAcknowledgement()
        acknowledgement.follow(.tokens, upTo: FleetMark(9))
        acknowledgement.follow(.locks, upTo: FleetMark(12))
        #expect(acknowledgement.mark == FleetMark(9))
        acknowledgement.follow(.tokens, upTo: FleetMark(20))
        #expect(acknowledgement.mark == FleetMark(12))
    }

    @Test func aRestoredDatabaseCountsFromAnEarlierNumber() {
        var acknowledgement = FleetAcknowledgement()
        for part in FleetAcknowledgement.Part.allCases { acknowledgement.follow(part, upTo: FleetMark(100)) }
        for part in FleetAcknowledgement.Part.allCases { acknowledgement.follow(part, upTo: FleetMark(40)) }
        #expect(acknowledgement.mark == FleetMark(40))
    }

    // MARK: Who is waited for

    @Test func liveGatewaysAreWaitedFor() throws {
        var question = FleetQuestion(FleetMark(10), from: "own")
        let first = question.note([member("own"), member("a", 10), member("b", 9)], after: .zero)
        #expect(first == .milliseconds(20))
        #expect(question.outstanding.map(\.id) == ["b"])
        #expect(question.note([member("own"), member("a", 10), member("b", 10)], after: .milliseconds(30)) == nil)
        #expect(question.outstanding.isEmpty)
        #expect(FleetFollowing(question).sentence == nil)
    }

    @Test func whoHasFollowedOnceHasFollowed() {
        var question = FleetQuestion(FleetMark(10))
        _ = question.note([member("a", 10), member("b")], after: .milliseconds(5))
        _ = question.note([member("a", 4), member("b")], after: .milliseconds(50))
        #expect(question.outstanding.map(\.id) == ["b"])
        #expect(question.lag(of: member("a")) == .milliseconds(5))
        #expect(question.lag(of: member("b")) == nil)
    }

    @Test func aGatewayThatWasNotSeenIsNamedAndNotWaitedFor() {
        var question = FleetQuestion(FleetMark(10), from: "own")
        let silent = member("gone", seen: .seconds(40))
        #expect(question.note([member("a", 11), silent], after: .zero) == nil)
        let following = FleetFollowing(question)
        #expect(following.unacknowledged.map(\.id) == ["gone"])
        #expect(following.sentence == "1 gateway has not acknowledged it: host-gone (gone, last seen 40 s ago).")
    }

    @Test func theWaitEnds() {
        var question = FleetQuestion(FleetMark(10))
        var (time, rounds) = (Duration.zero, 0)
        while let pause = question.note([member("a")], after: time) {
            #expect(pause > .zero && time + pause <= FleetQuestion.limit)
            time += pause
            rounds += 1
        }
        #expect(time == FleetQuestion.limit)
        #expect(rounds < 20)
    }

    @Test func aGatewayThatStopsIsNotWaitedFor() {
        var question = FleetQuestion(FleetMark(10))
        #expect(question.note([member("a", 10), member("b")], after: .zero) != nil)
        #expect(question.note([member("a", 10)], after: .milliseconds(20)) == nil)
        #expect(question.outstanding.isEmpty)
    }

    // MARK: What is said

    @Test func manyAreCounted() {
        var question = FleetQuestion(FleetMark(10))
        _ = question.note((0..<8).map { member("\($0)", seen: .seconds(Double($0))) }, after: .seconds(2))
        let following = FleetFollowing(question)
        #expect(following.unacknowledged.count == 8)
        #expect(
            following.sentence?.hasPrefix("8 gateways have not acknowledged it: host-0 (0, last seen 0 s ago), ")
                == true
        )
        #expect(following.sentence?.hasSuffix(" and 3 more.") == true)
    }

    @Test func whatIsNotKnownIsSaid() {
        let sentence = FleetFollowing(unknown: "the database is gone").sentence
        #expect(sentence == "It is not known whether the other gateways have applied it: the database is gone.")
    }

    @Test func whatDiffersIsMarked() {
        var question = FleetQuestion(FleetMark(10))
        let members = [
            member("a", 10), member("b", 10, digest: "bbbbbb"), member("c", version: "2"),
            // One that is gone does not count for the others.
            member("d", seen: .seconds(60), version: "2"), member("e", seen: .seconds(60), version: "2"),
        ]
        _ = question.note(members, after: .seconds(2))
        let gateways = FleetReport(question).gateways
        #expect(gateways.map(\.id) == ["a", "b", "c", "d", "e"])
        #expect(gateways.map(\.versionDiffers) == [false, false, true, true, true])
        #expect(gateways.map(\.configurationDiffers) == [false, true, false, false, false])
        #expect(gateways.map(\.lagSeconds) == [2, 2, nil, nil, nil])
    }

    @Test func withoutAMajorityAllDiffer() {
        #expect(FleetReport.mostCommon(["1", "2"]) == nil)
        #expect(FleetReport.mostCommon(["1", "2", "2"]) == "2")
        #expect(FleetReport.mostCommon([]) == nil)
    }

    // MARK: Clocks

    @Test func theOffsetIsMeasuredAroundTheStatement() {
        let sent = UnixTime(milliseconds: 1_000_000)
        #expect(
            FleetClock.offset(of: sent + .seconds(60), sent: sent, received: sent + .milliseconds(200))
                == .milliseconds(59_900)
        )
        #expect(FleetClock.offset(of: sent, sent: sent, received: sent + .seconds(2)) == nil)
        #expect(FleetClock.offset(of: sent, sent: sent, received: sent + .seconds(-1)) == nil)
    }
}
