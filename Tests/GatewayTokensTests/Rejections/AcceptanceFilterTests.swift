import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

@Suite("Acceptances that are told", .timeLimit(.minutes(5)))
struct AcceptanceFilterTests {
    private static func report(
        _ filter: inout AcceptanceFilter,
        _ path: String,
        by client: String? = nil,
        templates: Bool = false,
        all: Bool = false,
        at time: MonotonicTime
    ) -> AcceptanceFilter.Report? {
        var copy = filter
        defer { filter = copy }
        return HeadText.request(line: "GET \(path) HTTP/1.1") {
            copy.report($0, $1, by: client, for: .init(templates: templates, all: all), at: time)
        }
    }

    @Test func oneIsToldOncePerSecondAndClient() {
        var filter = AcceptanceFilter()
        let told = [
            Self.report(&filter, "/x", at: second(0)), Self.report(&filter, "/x", at: second(0) + .milliseconds(999)),
            Self.report(&filter, "/y", at: second(0)), Self.report(&filter, "/x", at: second(1)),
            Self.report(&filter, "/x", by: "a", at: second(1)), Self.report(&filter, "/x", by: "a", at: second(1)),
        ]
        #expect(told == [.acceptance, .nothing, .nothing, .acceptance, .acceptance, .nothing])
    }

    @Test func aNewPathIsToldWhereThatMakesADifference() {
        var filter = AcceptanceFilter()
        let told = [
            Self.report(&filter, "/x", templates: true, at: second(0)),
            Self.report(&filter, "/x", templates: true, at: second(0)),
            Self.report(&filter, "/y", templates: true, at: second(0)),
        ]
        #expect(told == [.template, .nothing, .template])
    }

    @Test func inDoubtEachIsTold() {
        var filter = AcceptanceFilter()
        let told = (0..<3).map { _ in Self.report(&filter, "/x", all: true, at: second(0)) }
        #expect(told == [.acceptance, .acceptance, .acceptance])
    }

    @Test func aTokensPathIsToldOnce() {
        var filter = AcceptanceFilter()
        let told = ["/x", "/x", "/y"].map { path in
            HeadText.request(line: "GET \(path) HTTP/1.1") { filter.isNew($0, $1) }
        }
        #expect(told == [true, false, true])
    }
}
