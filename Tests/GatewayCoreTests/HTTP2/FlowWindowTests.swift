import GatewayCore
import Testing

@Suite(.timeLimit(.minutes(5)))
struct FlowWindowTests {
    @Test func aSendWindowShrinksAndGrows() {
        var window = SendWindow(10)
        window.spend(10)
        #expect(window.available == 0)
        #expect(window.grow(by: 5) && window.available == 5)
    }

    @Test func settingsCanMakeItNegative() {
        var window = SendWindow(10)
        window.spend(8)
        #expect(window.grow(by: -5) && window.size == -3 && window.available == 0)
        #expect(window.grow(by: 3) && window.available == 0)
    }

    @Test func oneThatIsTooLargeIsFound() {
        var window = SendWindow(SendWindow.maximum)
        #expect(!window.grow(by: 1))
    }

    @Test func creditIsGivenBackWhenTheOtherSideHasTaken() {
        var window = ReceiveWindow(target: 100, size: 100)
        #expect(window.receive(80))
        #expect(window.credit() == nil)
        window.take(40)
        #expect(window.credit() == nil)
        window.take(20)
        #expect(window.credit() == 60)
        #expect(window.credit() == nil)
        #expect(window.held == 20)
        #expect(window.receive(80))
        #expect(!window.receive(1))
    }

    @Test func aSmallerWindowIsRaisedAtOnce() {
        var window = ReceiveWindow(target: 1000, size: 100)
        #expect(window.credit() == 900)
    }

    /// What the sender was allowed and what waits never exceed the target, whatever comes in which order.
    @Test func whatWaitsHasABound() {
        var random = SystemRandomNumberGenerator()
        var window = ReceiveWindow(target: 1000, size: 1000)
        var allowed = 1000
        for _ in 0..<10_000 {
            let count = Int.random(in: 0...allowed, using: &random)
            #expect(window.receive(count))
            allowed -= count
            window.take(Int.random(in: 0...window.held, using: &random))
            allowed += window.credit() ?? 0
            #expect(allowed + window.held <= 1000)
        }
    }

    @Test(arguments: [
        (BodyFraming.length(5), [5], true), (.length(5), [2, 3], true), (.length(5), [2, 2], false),
        (.length(5), [2, 4], false), (.none, [0], true), (.none, [1], false), (.chunked, [1, 100], true),
    ])
    func contentHasItsDeclaredLength(_ framing: BodyFraming, _ parts: [Int], _ isRight: Bool) {
        var length = DeclaredLength(framing)
        var taken = true
        for (index, part) in parts.enumerated() where taken {
            taken = length.take(part, isLast: index == parts.count - 1)
        }
        #expect(taken == isRight)
    }
}
