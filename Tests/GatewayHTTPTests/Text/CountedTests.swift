import GatewayHTTP
import Testing

@Suite("A number with its noun", .timeLimit(.minutes(5)))
struct CountedTests {
    @Test func onlyOneIsSingular() {
        #expect([0, 1, 2].map { $0.counted("route") } == ["0 routes", "1 route", "2 routes"])
    }
}
