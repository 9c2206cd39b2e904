import GatewayProxy
import Testing

@Suite("Lookups of servers without a route", .timeLimit(.minutes(5)))
struct UnroutedLookupTests {
    private typealias Lookups = [UnroutedLookup?]

    /// Clients of this test alone: the counts are those of the process.
    private static func client(_ number: Int) -> String { "lookups-\(number)" }

    private func take(_ count: Int, for client: String) throws -> Lookups {
        try (0..<count).map { try UnroutedLookup.begin(host: "\($0).example", client: client) }
    }

    private func isRefused(_ client: String) -> Bool {
        (try? UnroutedLookup.begin(host: "one-more.example", client: client)) == nil
    }

    @Test func aClientHasSoManyAndAllTogetherHaveMore() throws {
        var held = try (0..<4).map { try take(UnroutedLookup.maximumPerClient, for: Self.client($0)) }
        #expect(4 * UnroutedLookup.maximumPerClient == UnroutedLookup.maximum)
        #expect(isRefused(Self.client(0)) && isRefused(Self.client(9)))
        // An address asks nobody.
        for address in ["192.0.2.7", "2001:db8::1"] {
            #expect(try UnroutedLookup.begin(host: address, client: Self.client(0)) == nil)
        }
        // What was refused has taken no place, and gives none back.
        for _ in 0..<3 { #expect(isRefused(Self.client(0))) }
        held[0].removeLast()
        let last = try UnroutedLookup.begin(host: "last.example", client: Self.client(0))
        #expect(last != nil && isRefused(Self.client(0)) && isRefused(Self.client(9)))
        held[1] = []
        // The client's own limit holds although there are places.
        #expect(isRefused(Self.client(0)) && !isRefused(Self.client(9)))
        withExtendedLifetime((held, last)) {}
    }
}
