import Testing

@testable import GatewayHTTP
@testable import GatewayTokens

@Suite("How far an authority's clock is from ours", .timeLimit(.minutes(5)))
struct ClockSkewTests {
    private static let start = Moment(
        monotonic: MonotonicTime(nanoseconds: 1_000_000_000),
        wall: UnixTime(seconds: 1_772_357_400)
    )

    /// - Parameter ahead: Of the authority's clock, at the time when it answers: in the middle of the call.
    private static func measure(ahead: Duration, callTook duration: Duration, age: String? = nil) -> Int? {
        let written = start.wall + duration / 2 + ahead
        var fields = [TokenReply.Field(name: "date", value: written.httpDate)]
        if let age { fields.append(TokenReply.Field(name: "Age", value: age)) }
        let reply = TokenReply(status: 200, fields: fields)
        return ClockSkew.seconds(in: reply, sentAt: start, receivedAt: start + duration)
    }

    @Test(arguments: [5, 60, 86_400, -5, -60, -86_400])
    func itIsMeasuredInTheMiddleOfTheCall(_ seconds: Int) {
        #expect(Self.measure(ahead: .seconds(seconds), callTook: .milliseconds(20)) == seconds)
        #expect(Self.measure(ahead: .seconds(seconds), callTook: .seconds(2)) == seconds)
    }

    @Test(arguments: [0, 1, -1])
    func whatWholeSecondsExplainIsNone(_ seconds: Int) {
        #expect(Self.measure(ahead: .seconds(seconds), callTook: .milliseconds(20)) == 0)
    }

    @Test func aLongCallTellsLess() {
        #expect(Self.measure(ahead: .seconds(5), callTook: .seconds(10)) == 0)
        #expect(Self.measure(ahead: .seconds(9), callTook: .seconds(10)) == 9)
    }

    @Test func withoutADateOrFromACacheItIsUnknown() {
        #expect(Self.measure(ahead: .seconds(60), callTook: .zero, age: "60") == nil)
        for fields in [[], [TokenReply.Field(name: "Date", value: "yesterday")]] {
            let reply = TokenReply(status: 200, fields: fields)
            #expect(ClockSkew.seconds(in: reply, sentAt: Self.start, receivedAt: Self.start) == nil)
        }
    }

    @Test func peopleAreToldFrom5SecondsOn() {
        #expect(ClockSkew.advice(4) == nil)
        #expect(ClockSkew.advice(-4) == nil)
        let behind = ClockSkew.advice(312)
        #expect(behind?.hasPrefix("This machine's clock is 312 s behind the authorization server's.") == true)
        #expect(ClockSkew.advice(-5)?.contains("5 s ahead of the authorization server's") == true)
        #expect(behind?.hasSuffix("timedatectl set-ntp true") == true)
    }

    // MARK: What is told

    private static let authority = Origin(scheme: .https, host: "id.example.com", port: 443)

    @Test func eachChangeIsToldOnce() {
        var record = ClockSkewRecord()
        let told = [0, 4, 5, 6, 7, 4, 9, 10, 11, 3, 2, 0, -6, -6].map { record.take($0, of: Self.authority) }
        #expect(
            told == [
                nil, nil, .differs, nil, nil, nil, nil, .differs, nil, .differs, .agrees, nil, .differs, nil,
            ]
        )
    }

    @Test func theLargestOfSeveralIsShown() {
        var record = ClockSkewRecord()
        let other = Origin(scheme: .https, host: "other.example.com", port: 443)
        #expect(record.seconds(of: [Self.authority]) == nil)
        _ = record.take(0, of: Self.authority)
        #expect(record.seconds(of: [Self.authority]) == nil)
        _ = (record.take(3, of: Self.authority), record.take(-8, of: other))
        #expect(record.seconds(of: [Self.authority, other]) == -8)
    }

    @Test func thereIsALimit() {
        var record = ClockSkewRecord()
        for port in 1...1024 { _ = record.take(1, of: Origin(scheme: .https, host: "a.example", port: port)) }
        #expect(record.take(60, of: Self.authority) == nil)
        #expect(record.seconds(of: [Self.authority]) == nil)
    }

    @Test func everyAuthorityWithinTheLimitIsKept() {
        var record = ClockSkewRecord()
        func origin(_ number: Int) -> Origin { Origin(scheme: .https, host: "a\(number).example", port: 443) }
        for number in 1...ClockSkewRecord.limit { _ = record.take(60, of: origin(number)) }
        #expect(record.seconds(of: [origin(ClockSkewRecord.limit)]) == 60)
        #expect(record.take(60, of: origin(ClockSkewRecord.limit + 1)) == nil)
        #expect(record.seconds(of: [origin(ClockSkewRecord.limit + 1)]) == nil)
        // Known authorities are still updated.
        #expect(record.take(1, of: origin(1)) == .agrees)
    }
}

@Suite("The date of signatures", .timeLimit(.minutes(5)))
struct SignatureDateTests {
    @Test(arguments: [
        (600, 0, SignatureDate.Correction.change(to: 600)), (-600, 0, .change(to: -600)), (0, 600, .change(to: 0)),
        (30, 0, .change(to: 30)), (29, 0, .useless), (0, 0, .useless), (-29, 0, .useless),
        // Another request was faster.
        (600, 600, .isMade), (-600, -590, .isMade), (1200, 900, .isMade),
        // Fifteen minutes at most, which is enough where the service accepts as much again.
        (901, 0, .change(to: 900)), (1799, 0, .change(to: 900)), (-1799, 0, .change(to: -900)),
        (1800, 0, .outOfReach), (-1800, 0, .outOfReach), (1_000_000, 900, .outOfReach),
        (Int.max / 2, -900, .outOfReach),
    ])
    func corrections(_ measured: Int, _ present: Int, _ expected: SignatureDate.Correction) {
        #expect(SignatureDate.correction(by: measured, from: present, least: 30) == expected)
    }

    @Test(arguments: [(240, SignatureDate.Correction.change(to: 240)), (239, .useless)])
    func aResponseThatNamesNoReasonNeedsMore(_ measured: Int, _ expected: SignatureDate.Correction) {
        #expect(SignatureDate.correction(by: measured, from: 0, least: 240) == expected)
    }

    @Test func theLogSaysWhichWay() {
        #expect(SignatureDate.advice(600).contains("600 s behind"))
        #expect(SignatureDate.advice(-600).contains("600 s ahead of"))
    }
}
