import GatewayEvents
import Testing

@Suite("The statuses that are counted", .timeLimit(.minutes(5)))
struct CountedStatusTests {
    @Test(arguments: [0, 101, 200, 304, 404, 418, 429, 451, 499, 500, 503, 511, 522])
    func aCommonOneIsCountedByItself(_ status: Int) {
        #expect(CountedStatus.number(for: status) == status)
    }

    @Test(arguments: [(150, 100), (299, 200), (399, 300), (477, 400), (599, 500), (600, 500), (999, 500), (-1, 500)])
    func anotherOneCountsAsTheFirstOfItsClass(_ status: Int, _ counted: Int) {
        #expect(CountedStatus.number(for: status) == counted)
    }

    @Test func thereAreFew() {
        #expect(Set((0..<1000).map { CountedStatus.number(for: $0) }).count < 90)
    }
}
