import GatewayHTTP
import GatewayTesting
import Testing

@Suite(.timeLimit(.minutes(5)))
struct FlowWindowTests {
    @Test func aSendWindowShrinksAndGrows() {
        var window = SendWindow(10)
        window.spend(10)
        #expect(window.available == 0)
        let isValid = window.grow(by: 5)
        #expect(isValid && window.available == 5)
    }

    @Test func settingsCanMakeItNegative() {
        var window = SendWindow(10)
        window.spend(8)
        var isValid = window.grow(by: -5)
        #expect(isValid && window.size == -3 && window.available == 0)
        isValid = window.grow(by: 3)
        #expect(isValid && window.available == 0)
    }

    @Test func oneThatIsTooLargeIsFound() {
        var window = SendWindow(SendWindow.maximum)
        let isValid = window.grow(by: 1)
        #expect(!isValid)
    }

    @Test func creditIsGivenBackWhenTheOtherSideHasTaken() {
        var window = ReceiveWindow(target: 100, size: 100)
        var results = [window.receive(80)]
        var credits = [window.credit()]
        window.take(40)
        credits.append(window.credit())
        window.take(20)
        credits += [window.credit(), window.credit()]
        #expect(credits == [nil, nil, 60, nil])
        #expect(window.held == 20)
        results += [window.receive(80), window.receive(1)]
        #expect(results == [true, true, false])
    }

    @Test func aSmallerWindowIsRaisedAtOnce() {
        var window = ReceiveWindow(target: 1000, size: 100)
        let credit = window.credit()
        #expect(credit == 900)
    }

    /// What the sender was allowed and what waits never exceed the target, whatever comes in which order.
    @Test func whatWaitsHasABound() {
        var random = SplitMix(seed: 1)
        var window = ReceiveWindow(target: 1000, size: 1000)
        var allowed = 1000
        for _ in 0..<10_000 {
            let count = Int.random(in: 0...allowed, using: &random)
            let isAllowed = window.receive(count)
            #expect(isAllowed)
            allowed -= count
            let taken = Int.random(in: 0...window.held, using: &random)
            window.take(taken)
            allowed += window.credit() ?? 0
            #expect(allowed + window.held <= 1000)
        }
    }

    @Test func faultsAreCountedForAWhile() {
        var budget = FaultBudget()
        var results: [Bool] = []
        for _ in 0...FaultBudget.maximum { results.append(budget.spend(at: MonotonicTime(nanoseconds: 0))) }
        #expect(results.dropLast().allSatisfy { $0 } && results.last == false)
        let isForgiven = budget.spend(at: MonotonicTime(nanoseconds: 31_000_000_000))
        #expect(isForgiven)
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
