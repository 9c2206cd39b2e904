import Testing

@testable import GatewayTokens

@Suite("Confirmed templates", .timeLimit(.minutes(5)))
struct ConfirmedTemplatesTests {
    private static func template(_ name: String) -> PathTemplate {
        let bytes = Array(name.utf8)
        return PathTemplate(bytes.span, method: 0..<0, path: 0..<bytes.count)
    }

    /// Words without digits, so that none is an identifier.
    private static func words(_ count: Int) -> [PathTemplate] {
        (0..<count).map { number in
            template("/" + String(String(number, radix: 2).map { $0 == "0" ? "a" : "b" }))
        }
    }

    @Test func aTemplateIsConfirmedUnderOneGeneration() {
        let (table, one, other) = (ConfirmedTemplates(), Self.template("/one"), Self.template("/other"))
        #expect(!table.isConfirmed(one, generation: 1))
        table.confirm(one, generation: 1)
        #expect(table.isConfirmed(one, generation: 1))
        #expect(!table.isConfirmed(one, generation: 2))
        #expect(!table.isConfirmed(one, generation: 0))
        #expect(!table.isConfirmed(other, generation: 1))
        table.confirm(one, generation: 2)
        #expect(table.isConfirmed(one, generation: 2))
        #expect(!table.isConfirmed(one, generation: 1))
    }

    @Test func anEmptyTableConfirmsNothing() {
        let table = ConfirmedTemplates()
        for template in Self.words(2000) {
            for generation in [-1, 0, 1, .max] { #expect(!table.isConfirmed(template, generation: generation)) }
        }
    }

    @Test func mostOfAsManyAsThereAreSlotsAreKept() {
        let (table, templates) = (ConfirmedTemplates(), Self.words(64))
        for template in templates { table.confirm(template, generation: 7) }
        #expect(templates.count { table.isConfirmed($0, generation: 7) } >= 56)
    }

    /// A client that gets a 2xx for any path cannot keep others out.
    @Test func aTemplateInUseComesBackWithItsNextResponse() {
        let (table, used) = (ConfirmedTemplates(), Self.template("/used"))
        for template in Self.words(20_000) { table.confirm(template, generation: 3) }
        table.confirm(used, generation: 3)
        #expect(table.isConfirmed(used, generation: 3))
    }

    @Test func workersShareIt() async {
        let (table, templates) = (ConfirmedTemplates(), Self.words(16))
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<4 {
                group.addTask {
                    for generation in 1...500 {
                        for template in templates where template.hash % 4 == UInt64(worker) {
                            table.confirm(template, generation: generation)
                        }
                    }
                }
            }
        }
        let slots = Set(templates.map { $0.hash >> 55 })
        #expect(templates.count { table.isConfirmed($0, generation: 500) } == slots.count)
    }
}

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
