import GatewayProxy
import Testing

@Suite("Lookups of servers without a route", .timeLimit(.minutes(5)))
struct UnroutedLookupTests {
    private typealias Lookups = [UnroutedLookup?]

    /// Clients of this test alone: the counts are those of the process.
    private static func client(_ number: Int) -> String { "lookups-\(number)" }

    /// All that the client gets.
    private func takeAll(for client: String) -> Lookups {
        var lookups: Lookups = []
        while let lookup = try? UnroutedLookup.begin(host: "\(lookups.count).example", client: client) {
            lookups.append(lookup)
        }
        return lookups
    }

    private func isRefused(_ client: String) -> Bool {
        (try? UnroutedLookup.begin(host: "one-more.example", client: client)) == nil
    }

    @Test func oneClientLeavesLookupsToOthers() throws {
        var held = takeAll(for: Self.client(0))
        #expect(held.count == 3 * UnroutedLookup.maximum / 4)
        #expect(isRefused(Self.client(0)) && !isRefused(Self.client(9)))
        // An address asks nobody.
        for address in ["192.0.2.7", "2001:db8::1"] {
            #expect(try UnroutedLookup.begin(host: address, client: Self.client(0)) == nil)
        }
        // What was refused has taken no place, and gives none back.
        for _ in 0..<3 { #expect(isRefused(Self.client(0))) }
        held.removeLast()
        let last = try UnroutedLookup.begin(host: "last.example", client: Self.client(0))
        #expect(last != nil && isRefused(Self.client(0)))
        withExtendedLifetime((held, last)) {}
    }
}
