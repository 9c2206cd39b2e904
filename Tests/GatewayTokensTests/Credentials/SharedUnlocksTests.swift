import GatewayEvents
import GatewayHTTP
import Testing

@Suite("What is recorded of locks that the store no longer has", .timeLimit(.minutes(1)))
struct SharedUnlocksTests {
    private static let now = UnixTime(seconds: 1_772_357_400)

    @Test func eachNameHasAnEventThatSaysWhereItIsFrom() {
        let events = SharedUnlocks.events(
            of: ["other", "user[42]", "box"],
            strategies: ["box": "oauth2_code", "user": "box_jwt"],
            at: Self.now
        )
        #expect(events.map(\.credential) == ["box", "other", "user[42]"])
        #expect(events.map(\.strategy) == ["oauth2_code", nil, "box_jwt"])
        for event in events {
            #expect(event.name == .unlocked && event.detail == ["from": "store"])
            #expect(event.trigger == nil, "no operator of this gateway has done it")
        }
    }

    @Test func thoseOfTheConfigurationComeFirstAndTheRestIsCounted() {
        let invented = (0..<250).map { "a\($0)" }
        let events = SharedUnlocks.events(of: Set(invented + ["box"]), strategies: ["box": "s"], at: Self.now)
        #expect(events.count == SharedUnlocks.maximumEvents + 1)
        #expect(events.first?.credential == "box")
        #expect(events.last?.credential == nil)
        #expect(events.last?.detail == ["from": "store", "credentials": "151"])
    }

    @Test func nothingIsNoEvent() { #expect(SharedUnlocks.events(of: [], strategies: [:], at: Self.now).isEmpty) }
}
