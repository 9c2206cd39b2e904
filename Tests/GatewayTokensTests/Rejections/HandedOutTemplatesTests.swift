import GatewayTokens
import Testing

@Suite("Templates that engines were handed a token for", .timeLimit(.minutes(5)))
struct HandedOutTemplatesTests {
    private static func template(_ name: String) -> PathTemplate {
        let bytes = Array(name.utf8)
        return PathTemplate(bytes.span, method: 0..<0, path: 0..<bytes.count)
    }

    @Test func theFirstTimeIsKeptUntilItIsTaken() {
        let (table, one) = (HandedOutTemplates(), Self.template("/one"))
        #expect(table.take(one, generation: 1, at: second(0)) == nil)
        table.note(one, generation: 1, at: second(5))
        table.note(one, generation: 1, at: second(60))
        #expect(table.take(Self.template("/other"), generation: 1, at: second(61)) == nil)
        #expect(table.take(one, generation: 2, at: second(61)) == nil)
        #expect(table.take(one, generation: 1, at: second(61)) == .seconds(56))
        #expect(table.take(one, generation: 1, at: second(62)) == nil)
    }

    @Test func anotherGenerationTakesThePlace() {
        let (table, one) = (HandedOutTemplates(), Self.template("/one"))
        table.note(one, generation: 1, at: second(5))
        table.note(one, generation: 2, at: second(60))
        #expect(table.take(one, generation: 1, at: second(61)) == nil)
        #expect(table.take(one, generation: 2, at: second(61)) == .seconds(1))
    }

    /// The time has 24 bits.
    @Test func aTimeThatWrapsIsStillAnAge() {
        let (table, one) = (HandedOutTemplates(), Self.template("/one"))
        table.note(one, generation: 1, at: second((1 << 24) - 5))
        #expect(table.take(one, generation: 1, at: second((1 << 24) + 5)) == .seconds(10))
    }

    @Test func theTableHasABound() {
        let table = HandedOutTemplates()
        let all = (0..<5000).map { Self.template("/\($0)/\(String($0, radix: 36))x") }
        for template in all { table.note(template, generation: 1, at: second(0)) }
        #expect(all.count { table.take($0, generation: 1, at: second(0)) != nil } <= HandedOutTemplates.capacity)
    }
}
