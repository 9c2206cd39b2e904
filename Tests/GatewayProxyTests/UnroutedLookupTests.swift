import Testing

@testable import GatewayProxy

@Suite("Lookups of servers without a route", .serialized, .timeLimit(.minutes(5)))
struct UnroutedLookupTests {
    private typealias Lookups = [UnroutedLookup?]

    /// Clients of this test alone: the counts are those of the process.
    private static func client(_ number: Int) -> String { "lookups-\(number)" }

    private func take(_ count: Int, for client: String) throws -> Lookups {
        try (0..<count).map { try UnroutedLookup.begin(host: "\($0).example", port: 443, client: client) }
    }

    private func isRefused(_ client: String) -> Bool {
        (try? UnroutedLookup.begin(host: "one-more.example", port: 443, client: client)) == nil
    }

    @Test func aClientHasSoManyAndAllTogetherHaveMore() throws {
        var held = try (0..<4).map { try take(UnroutedLookup.maximumPerClient, for: Self.client($0)) }
        #expect(4 * UnroutedLookup.maximumPerClient == UnroutedLookup.maximum)
        #expect(isRefused(Self.client(0)) && isRefused(Self.client(9)))
        // An address asks nobody.
        for address in ["192.0.2.7", "2001:db8::1"] {
            #expect(try UnroutedLookup.begin(host: address, port: 443, client: Self.client(0)) == nil)
        }
        // What was refused has taken no place, and gives none back.
        for _ in 0..<3 { #expect(isRefused(Self.client(0))) }
        held[0].removeLast()
        let last = try UnroutedLookup.begin(host: "last.example", port: 443, client: Self.client(0))
        #expect(last != nil && isRefused(Self.client(0)) && isRefused(Self.client(9)))
        held[1] = []
        // The client's own limit holds although there are places.
        #expect(isRefused(Self.client(0)) && !isRefused(Self.client(9)))
        withExtendedLifetime((held, last)) {}
    }

    /// They wait for the same answers.
    @Test func lookupsOfOneServerShareAPlace() throws {
        let client = Self.client(20)
        var same = try (0..<100).map { _ in try UnroutedLookup.begin(host: "slow.example", port: 443, client: client) }
        let others = try take(UnroutedLookup.maximumPerClient - 1, for: client)
        #expect(isRefused(client))
        #expect(throws: UnroutedLookup.TooManyLookups.self) {
            try UnroutedLookup.begin(host: "slow.example", port: 444, client: client)
        }
        same.removeLast(99)
        #expect(isRefused(client))
        same = []
        #expect(!isRefused(client))
        withExtendedLifetime(others) {}
    }
}
